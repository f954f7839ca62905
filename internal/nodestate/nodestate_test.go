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
	want := &Offline{Since: time.Unix(1000, 0).UTC(), Sent: true}
	for range 2 {
		must.NoError(t, d.SetOffline(want))
	}
	got, err := d.Offline()
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if is, err := d.IsOffline(); !is || err != nil {
		t.Errorf("offline: %v, %v", is, err)
	}
	for range 2 {
		must.NoError(t, d.SetOffline(nil))
	}
	if err := os.WriteFile(filepath.Join(string(d), ".cgroup.offline.17"), nil, 0o600); err != nil { // broken off
		t.Fatal(err)
	}
	for _, d := range []Dir{d, "", Dir(filepath.Join(string(d), "none"))} {
		if is, err := d.IsOffline(); is || err != nil {
			t.Errorf("offline in %q: %v, %v", d, is, err)
		}
	}
	if got, err := d.Offline(); got != nil || err != nil {
		t.Errorf("%+v, %v after it was taken back", got, err)
	}
}

func TestDamagedNoteIsOneThatPBSWasToldOf(t *testing.T) {
	d := Dir(t.TempDir())
	for _, text := range []string{"", "{", "\x00", `{"since":7}`} {
		must.NoError(t, os.WriteFile(d.path(offlineFile), []byte(text), 0o600))
		got, err := d.Offline()
		if err != nil || got == nil || !got.Sent || time.Since(got.Since) > time.Hour {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		must.NoError(t, d.SetOffline(nil))
		if got, err := d.Offline(); got != nil || err != nil {
			t.Errorf("%q: %+v, %v after it was taken back", text, got, err)
		}
	}
}

func TestNoDirKeepsNothing(t *testing.T) {
	var d Dir
	if err := d.SetOffline(&Offline{}); err != nil {
		t.Error(err)
	}
}

func TestConfigurationSurvives(t *testing.T) {
	d := Dir(t.TempDir())
	for _, text := range []string{"[memory]\n", "x", "", ""} {
		must.NoError(t, d.SetConfiguration([]byte(text)))
		if got, err := d.Configuration(); string(got) != text || (got == nil) != (text == "") || err != nil {
			t.Errorf("configuration %q, %v, want %q", got, err, text)
		}
	}
	if files, err := os.ReadDir(string(d)); err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}
