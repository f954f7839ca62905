package kernfstest

import (
	"errors"
	"path"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzStore writes any text to any interface file: the answer is an errno or a value that can be
// read again.
func FuzzStore(f *testing.F) {
	for _, s := range []string{"0", "-1", "max", "64M", "8E", "0-3,8", "+memory -cpu", "100 200", "c 1:3 rwm", "FROZEN",
		"1 2 3", "\x00", "+", "0x7fffffffffffffff", "18446744073709551615K"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, k := range []*Kernel{NewV1(), NewV2()} {
			for _, h := range k.hierarchies {
				dir := path.Join(h.dir, "job")
				if h.v2 {
					h.root.subtree = h.controllers
				}
				mustMkdir(t, k, dir)
				p := k.Spawn()
				for kn := range h.root.children["job"].knobs {
					file := path.Join(dir, kn.name)
					err := k.Roots().Cgroup.Write(file, value)
					if errno := unix.Errno(0); err != nil && !errors.As(err, &errno) {
						t.Errorf("%s: %v", file, err)
					}
					if kn.show != nil {
						mustRead(t, k.Roots().Cgroup, file)
					}
				}
				k.Charge(p, Memory{Anon: 1, File: 1, Shmem: 1})
			}
		}
	})
}

// FuzzSize: an error gives 0, a size is whole pages, and its text is stable.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"0", "65537", "64M", "16E", "17E", "-1", "max", "1_0", "0x10", "", "K"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := size(text, "max")
		if err != nil {
			if n != 0 {
				t.Errorf("error and %d", n)
			}
			return
		}
		shown := showSize(n, "max")
		again, err := size(shown[:len(shown)-1], "max")
		if n < 0 || n != unlimited && n%pageSize != 0 || err != nil || again != n {
			t.Errorf("%q: %d, then %q: %d, %v", text, n, shown, again, err)
		}
	})
}
