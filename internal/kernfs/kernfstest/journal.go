package kernfstest

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Op is an operation of the program on the cgroup file system.
type Op struct {
	Op    string // mkdir, rmdir, write, chown, setxattr
	Path  string // below /sys/fs/cgroup
	Value string
	Err   error // nil, or the errno
}

// String formats the operation: "mkdir memory/job", or `write memory/job/memory.limit_in_bytes
// "64M": invalid argument`.
func (o Op) String() string {
	s := o.Op + " " + o.Path
	if o.Value != "" {
		s += fmt.Sprintf(" %q", o.Value)
	}
	if o.Err != nil {
		s += ": " + o.Err.Error()
	}
	return s
}

// Journal returns the operations since the start or the last ResetJournal, oldest first.
func (k *Kernel) Journal() []Op {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.journal)
}

// ResetJournal empties the journal.
func (k *Kernel) ResetJournal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.journal = nil
}

func (k *Kernel) record(o Op) { k.journal = append(k.journal, o) }

// fault makes operations fail.
type fault struct {
	op     string // "" means all operations that change something
	suffix string
	errno  unix.Errno
	skip   int  // how many operations succeed before
	once   bool // later ones succeed again
}

// Fail makes op on paths that end in suffix fail with errno, until the returned function is called.
// op is open, read, write, mkdir, rmdir, chown, getxattr or setxattr.
func (k *Kernel) Fail(op, suffix string, errno unix.Errno) (heal func()) {
	return k.addFault(&fault{op: op, suffix: suffix, errno: errno})
}

// FailNth makes one op on a path that ends in suffix fail with errno, after skip others, until the
// returned function is called.
func (k *Kernel) FailNth(op, suffix string, errno unix.Errno, skip int) (heal func()) {
	return k.addFault(&fault{op: op, suffix: suffix, errno: errno, skip: skip, once: true})
}

// FailFrom makes all operations that change the cgroup file system fail with errno, after skip of
// them, until the returned function is called. A program that dies also makes no further changes.
func (k *Kernel) FailFrom(errno unix.Errno, skip int) (heal func()) {
	return k.addFault(&fault{errno: errno, skip: skip})
}

func (k *Kernel) addFault(f *fault) (heal func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, f)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.faults = slices.DeleteFunc(k.faults, func(g *fault) bool { return g == f })
		k.wake()
	}
}

// changes are the operations that change something.
var changes = []string{"write", "mkdir", "rmdir", "setxattr"}

// fail returns the errno of the first matching fault.
func (k *Kernel) fail(op, name string) error {
	for _, f := range k.faults {
		if f.op != op && (f.op != "" || !slices.Contains(changes, op)) || !strings.HasSuffix(name, f.suffix) {
			continue
		}
		if f.skip--; f.skip < -1 && f.once || f.skip >= 0 {
			continue
		}
		return f.errno
	}
	return nil
}

// Dirty makes page cache unreclaimable, as when its file system does not answer, until clean is
// called.
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
