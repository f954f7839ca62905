package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// errNoHook and errHookExists are the errors of Registry's methods for a name that is unknown or
// taken.
var (
	errNoHook     = errors.New("no such hook")
	errHookExists = errors.New("the hook exists already")
)

// Registry is the directory hooks.d: one file NAME.toml for each registered hook. Several processes
// may use its methods at once. When a method returns, its change is either completely on disk or
// not at all.
type Registry struct {
	Dir        string // hooks.d; created together with the first hook
	ProgramDir string // where Import puts copies of programs and configurations

	// BuiltIn are the hooks that come with hookhost. They cannot be deleted. A file for one of them
	// in Dir holds the attributes that differ from these.
	BuiltIn []Hook
	// Off are the names of those that the configuration does not turn on. Each is the name of a
	// section too. A file with attributes for one of them has no effect until it is on.
	Off []string

	// Node and Settings go to each program at its start: see hostapi.SetupData.
	Node     string
	Settings map[string]string

	// AllowUnsafePaths skips the check that nobody else can write to the directories above a file.
	// For tests.
	AllowUnsafePaths bool
}

const (
	suffix      = ".toml"
	lockName    = ".lock"
	maxHookFile = 64 << 10
)

var hookName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// CheckName returns an error unless the name is allowed for a site's hook.
func CheckName(name string) error {
	switch {
	case !hookName.MatchString(name):
		return fmt.Errorf("hook %q: a name has a letter and then up to 63 letters, digits and any of _.-", name)
	case strings.HasPrefix(name, "PBS"):
		return fmt.Errorf("hook %s: names that start with PBS are reserved", name)
	}
	return nil
}

// Create registers a hook with default attributes and no program. It returns errHookExists for a
// name that is taken.
func (r *Registry) Create(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	unlock, err := r.lock()
	if err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	defer unlock()
	switch _, err := r.Get(name); {
	case errors.Is(err, errNoHook) && slices.Contains(r.Off, name):
		return fmt.Errorf("hook %s: %w", name, off(errHookExists, name))
	case err == nil:
		return fmt.Errorf("hook %s: %w", name, errHookExists)
	case !errors.Is(err, errNoHook):
		return err
	}
	created := time.Now().UTC().Truncate(time.Microsecond)
	return r.write(Hook{Name: name, Attributes: DefaultAttributes(), Created: created})
}

// Get returns one hook, or errNoHook for an unknown name.
func (r *Registry) Get(name string) (Hook, error) {
	if !hookName.MatchString(name) {
		return Hook{}, fmt.Errorf("hook %q: %w", name, errNoHook)
	}
	h, _, err := r.read(name)
	if err != nil {
		return Hook{}, fmt.Errorf("hook %s: %w", name, err)
	}
	return h, nil
}

// read returns a hook and the text of its file.
func (r *Registry) read(name string) (h Hook, text []byte, err error) {
	h, builtIn := r.builtIn(name)
	file := filepath.Join(r.Dir, name+suffix)
	text, err = r.paths().read(file, maxHookFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isLink(file):
		// for example into a file system that is not mounted
		err = fmt.Errorf("open %s: it is a link to what is not there", file)
	case errors.Is(err, fs.ErrNotExist) && builtIn:
		return h, nil, nil
	case slices.Contains(r.Off, name) && (errors.Is(err, fs.ErrNotExist) || err == nil && !isSites(text)):
		return h, nil, off(errNoHook, name)
	case errors.Is(err, fs.ErrNotExist):
		return h, nil, errNoHook
	case err == nil:
		err = decodeHook(text, &h)
	}
	return h, text, err
}

// off returns the error for a hook of hookhost's that is off, with the remedy.
func off(err error, name string) error {
	return fmt.Errorf("%w: it comes with hookhost and is off: turn it on in [%s] of the configuration", err, name)
}

// isSites reports whether a file may be that of a site's hook. Such a file has more than
// attributes.
func isSites(text []byte) bool {
	var f struct{ Type, Program string }
	return toml.Unmarshal(text, &f) != nil || f.Type != "" || f.Program != ""
}

func isLink(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode()&fs.ModeSymlink != 0
}

// List returns the hooks in the order in which they run. A hook whose file cannot be used is
// included, with its Fault; see faulty. A directory that cannot be read is an error.
func (r *Registry) List() ([]Hook, error) {
	var names []string
	for _, h := range r.BuiltIn {
		names = append(names, h.Name)
	}
	files, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) && !isLink(r.Dir) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), suffix)
		if ok && !strings.HasPrefix(name, ".") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var hooks []Hook
	for _, name := range names {
		h, text, err := r.read(name)
		switch {
		case errors.Is(err, errNoHook): // deleted meanwhile
			continue
		case err == nil && !hookName.MatchString(name):
			err = CheckName(name)
		}
		if err != nil {
			h = r.faulty(name, text, err)
		}
		hooks = append(hooks, h)
	}
	slices.SortStableFunc(hooks, byOrder)
	return hooks, nil
}

// byOrder compares as PBS does: by ascending order, then by time of creation.
func byOrder(a, b Hook) int {
	return cmp.Or(cmp.Compare(a.Order, b.Order), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// Set changes attributes: each assignment is ATTR=VALUE. Either all are carried out or none. A
// value may be in double quotes, as in qmgr.
func (r *Registry) Set(name string, assignments ...string) error {
	return r.change(name, func(h *Hook) error {
		for _, a := range assignments {
			attr, value, ok := strings.Cut(a, "=")
			if !ok {
				return fmt.Errorf("%q: want ATTRIBUTE=VALUE", a)
			}
			value = strings.TrimSpace(value)
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if err := h.set(strings.TrimSpace(attr), value); err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete removes a hook and the copies that Import made for it. It returns errNoHook for an unknown
// name.
func (r *Registry) Delete(name string) error {
	if _, ok := r.builtIn(name); ok {
		return fmt.Errorf("hook %s: it comes with hookhost and cannot be deleted: set enabled=false instead, "+
			"or to restore its defaults remove %s and reload the daemon", name, filepath.Join(r.Dir, name+suffix))
	}
	unlock, err := r.lock()
	if err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	defer unlock()
	h, err := r.Get(name)
	if errors.Is(err, errNoHook) {
		return err
	}
	// Even a file that cannot be read can be deleted.
	if err := os.Remove(filepath.Join(r.Dir, name+suffix)); err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	if err := errors.Join(disk.SyncDir(r.Dir), r.discard(h.Program), r.discard(h.Config)); err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	return nil
}

// change applies fn to a hook and replaces its file. Copies of programs and configurations that are
// no longer referred to are removed.
func (r *Registry) change(name string, fn func(*Hook) error) error {
	unlock, err := r.lock()
	if err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	defer unlock()
	before, err := r.Get(name)
	if err != nil {
		return err
	}
	after := before
	if err = fn(&after); err == nil {
		defaults, _ := r.builtIn(name)
		after.fillIn(defaults.Attributes)
		err = after.check()
	}
	if err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	if err := r.write(after); err != nil {
		return err
	}
	for _, old := range []string{before.Program, before.Config} {
		if old != after.Program && old != after.Config {
			err = errors.Join(err, r.discard(old))
		}
	}
	if err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	return nil
}

// write replaces a hook's file.
func (r *Registry) write(h Hook) error {
	b, err := r.encode(h)
	if err == nil {
		err = disk.Replace(filepath.Join(r.Dir, h.Name+suffix), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	return nil
}

func (r *Registry) builtIn(name string) (Hook, bool) {
	i := slices.IndexFunc(r.BuiltIn, func(h Hook) bool { return h.Name == name })
	if i < 0 {
		return Hook{Name: name, Attributes: DefaultAttributes()}, false
	}
	h := r.BuiltIn[i]
	h.BuiltIn, h.Type = true, TypePBS
	return h, true
}

func (r *Registry) paths() paths { return paths{unsafeDirs: r.AllowUnsafePaths} }

// lock locks out other processes, and makes the directory.
func (r *Registry) lock() (unlock func(), err error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, err
	}
	// A file that users cannot open, and so cannot lock.
	file, err := os.OpenFile(filepath.Join(r.Dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := disk.Lock(context.Background(), int(file.Fd())); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", r.Dir, err)
	}
	return func() { file.Close() }, nil
}
