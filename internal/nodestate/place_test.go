package nodestate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Another state directory is apart as long as it is there; one that was renamed, deleted or made anew is not.
func TestApart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(other, own string) error
		apart  bool
	}{
		{"both are there", func(string, string) error { return nil }, true},
		{"another file is in it", func(other, _ string) error { return os.WriteFile(other+"/x", nil, 0o600) }, true},
		{"ours is gone", func(_, own string) error { return os.Remove(own) }, true},
		{"it is gone", func(other, _ string) error { return os.Remove(other) }, false},
		{"it was renamed to ours", func(other, own string) error {
			if err := os.Remove(own); err != nil {
				return err
			}
			return os.Rename(other, own)
		}, false},
		{"renamed, and a new one is in its place", func(other, _ string) error {
			if err := os.Rename(other, other+"2"); err != nil {
				return err
			}
			return os.Mkdir(other, 0o700)
		}, false},
		{"ours is a link to it", func(other, own string) error {
			if err := os.Remove(own); err != nil {
				return err
			}
			return os.Symlink(other, own)
		}, false},
		{"a file is in its place", func(other, _ string) error {
			if err := os.Remove(other); err != nil {
				return err
			}
			return os.WriteFile(other, nil, 0o600)
		}, true}, // it cannot be looked at
		{"it cannot be looked at", func(other, _ string) error {
			if err := os.Remove(other); err != nil {
				return err
			}
			return os.Symlink(other, other) // ELOOP
		}, true},
		{"a file is in the place of its parent", func(other, _ string) error {
			if err := os.RemoveAll(filepath.Dir(other)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Dir(other), nil, 0o600)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			other, own := filepath.Join(top, "a", "state"), filepath.Join(top, "b")
			for _, dir := range []string{other, own} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Dir(other).Place()
			if err != nil || p.Dir != other || p.Ino == 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			b, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var read Place
			if err := json.Unmarshal(b, &read); err != nil || read != p {
				t.Fatalf("%s: %+v, %v", b, read, err)
			}
			if err := tt.change(other, own); err != nil {
				t.Fatal(err)
			}
			if got := p.Apart(Dir(own)); got != tt.apart {
				t.Errorf("apart: %v", got)
			}
			if p.Apart(Dir(other)) {
				t.Error("apart from the same path")
			}
			if p.Apart("") || (Place{}).Apart(Dir(own)) {
				t.Error("apart from what is not known")
			}
		})
	}
}

func TestPlaceOfNothing(t *testing.T) {
	for _, d := range []Dir{"", Dir(t.TempDir() + "/none"), "/proc/version/none"} {
		if p, err := d.Place(); err != nil || p != (Place{}) {
			t.Errorf("%q: %+v, %v", d, p, err)
		}
	}
	if _, err := Dir("/proc/version").Place(); err == nil || !strings.Contains(err.Error(), "/proc/version") {
		t.Errorf("a file: %v", err)
	}
}
