package openpbs

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/hookhost/hookhost/internal/disk"
)

// The files beside one another in PBS_EXEC/bin. The stand-in has the same names
// (pbs_python/main.go).
const (
	pbsPython = "pbs_python"
	real      = "pbs_python.openpbs"  // PBS's own, while the stand-in has its place
	notes     = "pbs_python.hookhost" // what was done, and what the stand-in has to know
	fresh     = ".pbs_python.hookhost-new"
)

// The constants are what each of the two programs has in it and the other has not: PBS's usage text
// (main in src/tools/pbs_python.c), and the name of a variable that only the stand-in sets.
var (
	pbsWords     = []byte("--hook -i <")
	standInWords = []byte("HOOKHOST_REPLY_FD=")
)

// StandIn is the place of the program pbs_python, which the native stand-in may have. pbs_python is
// one of the two, whole, wherever a change is cut off. Doing the same again finishes what was
// begun.
type StandIn struct {
	Dir string // PBS_EXEC/bin
}

// State says who has the place.
type State int

// The states. StateStock is also that of a directory where the stand-in has never been.
// StateUpgraded is that of a directory where PBS's package has put a new pbs_python in the place of
// the stand-in.
const (
	StateNone     State = iota // there is no pbs_python
	StateStock                 // PBS's own
	StateStandIn               // the stand-in, with PBS's own beside it
	StateUpgraded              // PBS's own, and an older one of it beside it
	StateUnknown               // something else, or not as it was noted
)

// Place is what was found.
type Place struct {
	State State
	Why   string // for StateUnknown: what is wrong, as a clause
	// Outdated: the stand-in is not the program that it was compared with.
	Outdated bool
}

// Inspect returns who has the place, and whether the stand-in there is program; "" compares with
// nothing. Inspect changes nothing, and fails where the directory cannot be read.
func (s StandIn) Inspect(program string) (Place, error) {
	now, err := s.read(pbsPython)
	if errors.Is(err, fs.ErrNotExist) {
		return Place{State: StateNone}, nil
	}
	if err != nil {
		return Place{}, err
	}
	kept, err := s.read(real)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Place{}, err
	}
	noted, err := s.notes()
	if err != nil {
		return Place{}, err
	}
	unknown := func(format string, args ...any) (Place, error) {
		return Place{State: StateUnknown, Why: fmt.Sprintf(format, args...)}, nil
	}
	switch {
	case bytes.Contains(now, standInWords):
		switch {
		case kept == nil:
			return unknown("the stand-in is there and PBS's own, %s, is not: install PBS's package again", s.path(real))
		case isPython(kept) != nil:
			return unknown("%s: %v", s.path(real), isPython(kept))
		case noted["real_sha256"] != "" && noted["real_sha256"] != sum(kept):
			return unknown("%s is not the file that was put there: its checksum differs", s.path(real))
		}
		p := Place{State: StateStandIn}
		if program != "" {
			b, err := os.ReadFile(program)
			if err != nil {
				return Place{}, err
			}
			p.Outdated = !bytes.Equal(b, now)
		}
		return p, nil
	case isPython(now) != nil:
		return unknown("%s: %v", s.path(pbsPython), isPython(now))
	case kept == nil || bytes.Equal(kept, now): // the latter between link and rename
		return Place{State: StateStock}, nil
	case noted["real_sha256"] == sum(kept):
		return Place{State: StateUpgraded}, nil
	}
	return unknown("%s is there and was not put there by hookhost", s.path(real))
}

// Install gives the place to program, a stand-in that knows the hook's name. PBS's own stays beside
// it under another name. Install is idempotent. A newer stand-in and the newer pbs_python of an
// upgraded PBS are installed as well. Install refuses what Inspect does not know.
func (s StandIn) Install(program, hook string) error {
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
	switch p.State {
	case StateNone:
		return fmt.Errorf("%s: %w", s.path(pbsPython), fs.ErrNotExist)
	case StateUnknown:
		return errors.New(p.Why)
	}
	owner := pbsPython
	if p.State == StateStandIn {
		owner = real
	}
	info, err := os.Lstat(s.path(owner))
	if err != nil {
		return err
	}
	python, err := os.ReadFile(s.path(owner))
	if err != nil {
		return err
	}
	// The notes first: whatever happens next, they say what the file beside pbs_python is.
	text := fmt.Sprintf("# Written by 'hookhost openpbs install --native'; "+
		"'hookhost openpbs uninstall' takes it back.\n"+
		"hook = %s\nreal = %s\nreal_size = %d\nreal_sha256 = %s\nstandin_sha256 = %s\n", hook, s.path(real),
		len(python), sum(python), sum(b))
	if p.State == StateUpgraded {
		// The older one goes before the notes about it do.
		if err := os.Remove(s.path(real)); err != nil {
			return err
		}
	}
	if err := s.put(notes, []byte(text), 0o644, nil); err != nil {
		return err
	}
	if p.State == StateStandIn && !p.Outdated {
		return nil
	}
	if p.State != StateStandIn {
		// A second name, so that there is no moment without a pbs_python.
		if err := os.Link(s.path(pbsPython), s.path(real)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return s.put(pbsPython, b, info.Mode().Perm(), info)
}

// Uninstall gives the place back to PBS's own. After an upgrade of PBS that is the new one, and the
// old one is removed. Uninstall is idempotent; done tells whether there was anything to do.
// Uninstall refuses what Inspect does not know.
func (s StandIn) Uninstall() (done bool, err error) {
	p, err := s.Inspect("")
	if err != nil {
		return false, err
	}
	switch p.State {
	case StateUnknown:
		return false, errors.New(p.Why)
	case StateStandIn:
		err = os.Rename(s.path(real), s.path(pbsPython))
		done = true
	case StateStock, StateUpgraded:
		// Renaming one of two names of the same file does nothing: rename(2).
		err = os.Remove(s.path(real))
		done = err == nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := disk.SyncDir(s.Dir); err != nil {
		return done, err
	}
	for _, name := range []string{notes, fresh} {
		if err := os.Remove(s.path(name)); err == nil {
			done = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return done, err
		}
	}
	return done, nil
}

func (s StandIn) path(name string) string { return filepath.Join(s.Dir, name) }

// read returns a file, which must be a regular one: what is behind a link is not ours to replace.
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

// notes returns what was noted, by key: lines KEY = VALUE, of which those with a # in front do not
// count. There are none where nothing was noted.
func (s StandIn) notes() (map[string]string, error) {
	b, err := s.read(notes)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	noted := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if key, value, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			noted[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return noted, err
}

// put replaces a file as a whole, with the owner and mode of like.
func (s StandIn) put(name string, content []byte, mode fs.FileMode, like fs.FileInfo) error {
	if err := os.Remove(s.path(fresh)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(s.path(fresh), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if stat, ok := sysStat(like); ok {
		err = errors.Join(err, f.Chown(int(stat.Uid), int(stat.Gid)))
	}
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		os.Remove(s.path(fresh))
		return err
	}
	if err := os.Rename(s.path(fresh), s.path(name)); err != nil {
		return err
	}
	return disk.SyncDir(s.Dir)
}

func sysStat(info fs.FileInfo) (*syscall.Stat_t, bool) {
	if info == nil {
		return nil, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return stat, ok
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// machines are what a pbs_python for this machine is for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64,
	"riscv64": elf.EM_RISCV, "s390x": elf.EM_S390}

// isPython tells why a program is not PBS's pbs_python, of which a wrapper of the site's is one
// example; nil when it is.
func isPython(b []byte) error {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("not a program of PBS's: %v", strings.TrimPrefix(err.Error(), "bad magic number "))
	}
	switch {
	case f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN:
		return errors.New("not a program: ELF type " + f.Type.String())
	case f.Machine != machines[runtime.GOARCH]:
		return errors.New("not a program for this machine: " + f.Machine.String())
	case !bytes.Contains(b, pbsWords):
		return errors.New("not PBS's pbs_python: its usage text is not in it (" + strconv.Quote(string(pbsWords)) + ")")
	}
	return nil
}
