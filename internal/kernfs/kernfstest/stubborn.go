package kernfstest

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Dirty has every page cache be one that cannot be had back for now, as when its file system does not answer. It returns
// how to end that.
func (k *Kernel) Dirty(on bool) (clean func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dirty = on
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.dirty = false
	}
}

// FailNth makes the write after skip others to the file that ends in suffix fail with errno, until the returned function
// is called.
func (k *Kernel) FailNth(suffix string, errno unix.Errno, skip int) (heal func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := &fault{op: "write", suffix: suffix, errno: errno, skip: skip, once: true}
	k.faults = append(k.faults, f)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.faults = slices.DeleteFunc(k.faults, func(g *fault) bool { return g == f })
		k.wake()
	}
}
