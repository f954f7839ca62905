package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// vntypeIn reads the vntype of a node whose pbs_mom has that home.
func vntypeIn(home string) (Vntype, error) { return ReadVntype(&config.OpenPBS{Home: home}) }

func TestVntypeIsTheFirstLineOfTheFile(t *testing.T) {
	home := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(home, "mom_priv"), 0o755))
	if v, err := vntypeIn(home); v.Name != "" || v.There || err != nil {
		t.Errorf("without a file: %+v, %v", v, err)
	}
	file := filepath.Join(home, "mom_priv", "vntype")
	for text, want := range map[string]string{
		"": "", "\n": "", "fat": "fat", "  by hand \r\n": "by hand", "fat\nthin\n": "fat", " \nfat": "",
	} {
		must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		if v, err := vntypeIn(home); v.Name != want || !v.There || err != nil {
			t.Errorf("%q: %+v, %v, want %q", text, v, err, want)
		}
	}
	for _, text := range []string{"a\tb", strings.Repeat("x", 300)} {
		must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		if v, err := vntypeIn(home); err == nil {
			t.Errorf("%q was taken: %+v", text, v)
		}
	}
}

func TestVntypeIsWrittenForEverybodyToRead(t *testing.T) {
	home := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(home, "mom_priv"), 0o755))
	v, err := vntypeIn(home)
	must.NoError(t, err)
	for _, name := range []string{"gpu", "fat node"} {
		must.NoError(t, v.Write(name))
		if got, err := vntypeIn(home); got.Name != name || got != v || err != nil {
			t.Errorf("%+v, %v, want %q", got, err, name)
		}
	}
	if info, err := os.Stat(v.File); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{"", "a\nb", strings.Repeat("x", 300)} {
		if err := v.Write(name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(home, "mom_priv", ".vntype*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
