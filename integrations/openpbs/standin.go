package openpbs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/disk"
)

// The files in PBS_EXEC/bin. The stand-in knows the name of PBS's own (cmd/pbs-python/main.go).
const (
	pbsPython = "pbs_python"
	real      = "pbs_python.openpbs"  // PBS's own, while the stand-in replaces it
	notes     = "pbs_python.hookhost" // says whose the stand-in is
)

// standInWords occurs in each version of the stand-in and in no other program: the name of a
// variable that only the stand-in sets.
var standInWords = []byte("HOOKHOST_REPLY_FD=")

// StandIn replaces the program pbs_python with the native stand-in, and restores it. Even if a
// change is interrupted, pbs_python is complete: either PBS's own or the stand-in. Repeating the
// change finishes it.
//
// PBS's own is any program that is not the stand-in, for example a wrapper of the site. The
// stand-in executes it with the same arguments.
type StandIn struct {
	Dir string // PBS_EXEC/bin
}

// Place says which program is installed as pbs_python.
type Place struct {
	StandIn  bool // the stand-in, with PBS's own beside it; otherwise PBS's own
	Outdated bool // the stand-in differs from the program that it was compared with
	Lost     bool // PBS's package has replaced the stand-in with its own program
}

// Inspect determines which program is installed as pbs_python, and compares the stand-in with
// program unless that is "". It does not change anything. It fails if there is no pbs_python
// (fs.ErrNotExist), or if neither Install nor Uninstall may change it.
func (s StandIn) Inspect(program string) (p Place, err error) {
	now, err := s.read(pbsPython)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", s.path(pbsPython), fs.ErrNotExist)
	}
	if err != nil {
		return p, err
	}
	isThere := func(name string) bool {
		_, err := os.Lstat(s.path(name))
		return err == nil
	}
	if !bytes.Contains(now, standInWords) {
		p.Lost = isThere(real) && !s.linked()
		if p.Lost && !isThere(notes) {
			return p, fmt.Errorf("%s: not put there by hookhost", s.path(real))
		}
		return p, nil
	}
	p.StandIn = true
	if kept, err := s.read(real); err != nil || bytes.Contains(kept, standInWords) {
		return p, fmt.Errorf("%s: not PBS's own pbs_python: install PBS's package again", s.path(real))
	}
	if program != "" {
		wanted, err := os.ReadFile(program)
		p.Outdated = !bytes.Equal(wanted, now)
		return p, err
	}
	return p, nil
}

// linked reports whether PBS's own has both names, as between the two steps of Install.
func (s StandIn) linked() bool {
	now, _ := os.Lstat(s.path(pbsPython))
	kept, _ := os.Lstat(s.path(real))
	return os.SameFile(now, kept)
}

// Install replaces pbs_python with program, a stand-in. PBS's own stays beside it under another
// name. It is idempotent. It also installs a newer stand-in, and reinstalls
// the stand-in after an upgrade of PBS. It fails if Inspect does.
func (s StandIn) Install(program string) error {
	b, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the stand-in: %w", err)
	}
	if !bytes.Contains(b, standInWords) {
		return fmt.Errorf("%s: not the stand-in", program)
	}
	p, err := s.Inspect(program)
	if err != nil {
		return err
	}
	info, err := os.Stat(s.path(pbsPython))
	if err != nil {
		return err
	}
	// The notes come first: whatever happens next, they show that the file beside pbs_python is
	// hookhost's.
	const text = "# Written by 'hookhost openpbs install --native'; 'hookhost openpbs uninstall' takes it back.\n"
	if err := disk.Replace(s.path(notes), []byte(text), 0o644); err != nil {
		return err
	}
	if p.StandIn && !p.Outdated {
		return nil
	}
	if !p.StandIn {
		// PBS's own gets a second name first, so that pbs_python never goes missing.
		if err := remove(s.path(real)); err != nil {
			return err
		}
		if err := os.Link(s.path(pbsPython), s.path(real)); err != nil {
			return err
		}
	}
	return disk.Replace(s.path(pbsPython), b, info.Mode().Perm())
}

// Uninstall restores PBS's own program. After an upgrade of PBS the new one stays, and the old one
// is removed. It is idempotent. done is false if there was nothing to do. It fails if Inspect does.
func (s StandIn) Uninstall() (done bool, err error) {
	p, err := s.Inspect("")
	if err != nil {
		return false, err
	}
	_, noted := os.Lstat(s.path(notes))
	done = p.StandIn || noted == nil
	if p.StandIn {
		err = os.Rename(s.path(real), s.path(pbsPython))
	} else {
		err = remove(s.path(real))
	}
	if err == nil {
		err = disk.SyncDir(s.Dir)
	}
	// The notes go last, because they show that the file beside pbs_python is hookhost's.
	if err == nil {
		err = remove(s.path(notes))
	}
	return done, err
}

func (s StandIn) path(name string) string { return filepath.Join(s.Dir, name) }

// read returns a file, which must be a regular one, because hookhost must not replace the target of
// a link.
func (s StandIn) read(name string) ([]byte, error) {
	info, err := os.Lstat(s.path(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", s.path(name))
	}
	return os.ReadFile(s.path(name))
}

// remove removes a file that may not exist.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
