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
	want := map[string]*Offline{"failed x": {Comment: "x", Since: time.Unix(1000, 0).UTC(), Vnodes: []string{"n"},
		Over: true}}
	for range 2 {
		must.NoError(t, d.SetOffline(want))
	}
	got, err := d.Offline()
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for range 2 {
		must.NoError(t, d.SetOffline(nil))
	}
	none := func(what string, d Dir) {
		if got, err := d.Offline(); got == nil || len(got) > 0 || err != nil {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	must.NoError(t, os.WriteFile(filepath.Join(string(d), ".offline.17"), nil, 0o600)) // broken off
	for _, d := range []Dir{d, "", Dir(filepath.Join(string(d), "none"))} {
		none(string(d), d)
	}
	for _, damaged := range []string{"", "{", "\x00", "null", `{"x":7}`} {
		must.NoError(t, os.WriteFile(d.path(offlineFile), []byte(damaged), 0o600))
		none(damaged, d)
	}
}

func TestNoDirKeepsNothing(t *testing.T) {
	var d Dir
	if err := d.SetOffline(map[string]*Offline{"x": {}}); err != nil {
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
