package nodestate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func newVntype(t *testing.T) Vntype {
	home := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(home, "mom_priv"), 0o755))
	return VntypeOf(home)
}

func TestVntypeIsTheFirstLineOfTheFile(t *testing.T) {
	f := newVntype(t)
	if v, err := f.Read(); v != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %q, %v", v, err)
	}
	for text, want := range map[string]string{
		"": "", "\n": "", "fat": "fat", "  by hand \r\n": "by hand", "fat\nthin\n": "fat", " \nfat": "",
	} {
		must.NoError(t, os.WriteFile(string(f), []byte(text), 0o644))
		if v, err := f.Read(); v != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, v, err, want)
		}
	}
	for _, text := range []string{"a\tb", strings.Repeat("x", 300)} {
		must.NoError(t, os.WriteFile(string(f), []byte(text), 0o644))
		if v, err := f.Read(); err == nil {
			t.Errorf("%q was taken: %q", text, v)
		}
	}
}

func TestVntypeIsWrittenForEverybodyToRead(t *testing.T) {
	f := newVntype(t)
	for _, v := range []string{"gpu", "fat node"} {
		must.NoError(t, f.Write(v))
		if got, err := f.Read(); got != v || err != nil {
			t.Errorf("%q, %v, want %q", got, err, v)
		}
	}
	if info, err := os.Stat(string(f)); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	for _, v := range []string{"", "a\nb", strings.Repeat("x", 300)} {
		if err := f.Write(v); err == nil {
			t.Errorf("%q was taken", v)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(string(f)), ".vntype*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := VntypeOf(t.TempDir()).Write("fat"); err == nil {
		t.Error("a home without mom_priv was taken")
	}
}
