package nodestate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

func TestOfflineSurvives(t *testing.T) {
	d := Dir(t.TempDir())
	want := &Offline{Since: time.Unix(1000, 0).UTC(), Told: true, Before: []string{"n1[1]"}}
	for range 2 {
		must.NoError(t, d.SetOffline("cgroup", want))
	}
	got, err := d.Offline("cgroup")
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := d.Offline("other"); got != nil || err != nil {
		t.Errorf("another hook's: %+v, %v", got, err)
	}
	if any, err := d.AnyOffline(); !any || err != nil {
		t.Errorf("any: %v, %v", any, err)
	}
	for range 2 {
		must.NoError(t, d.SetOffline("cgroup", nil))
	}
	if err := os.WriteFile(filepath.Join(string(d), ".cgroup.offline.17"), nil, 0o600); err != nil { // broken off
		t.Fatal(err)
	}
	for _, d := range []Dir{d, "", Dir(filepath.Join(string(d), "none"))} {
		if any, err := d.AnyOffline(); any || err != nil {
			t.Errorf("any in %q: %v, %v", d, any, err)
		}
	}
	if got, err := d.Offline("cgroup"); got != nil || err != nil {
		t.Errorf("%+v, %v after it was taken back", got, err)
	}
}

func TestNoDirKeepsNothing(t *testing.T) {
	var d Dir
	if err := d.SetOffline("cgroup", &Offline{}); err != nil {
		t.Error(err)
	}
}

func TestConfigurationAndRemarkSurvive(t *testing.T) {
	d := Dir(t.TempDir())
	for _, text := range []string{"[memory]\n", "x", "", ""} {
		must.NoError(t, d.SetConfiguration([]byte(text)))
		must.NoError(t, d.SetRemark(text))
		if got, err := d.Configuration(); string(got) != text || (got == nil) != (text == "") || err != nil {
			t.Errorf("configuration %q, %v, want %q", got, err, text)
		}
		if got, err := d.Remark(); got != text || err != nil {
			t.Errorf("remark %q, %v, want %q", got, err, text)
		}
	}
	if files, err := os.ReadDir(string(d)); err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}
