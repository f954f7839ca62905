// Package settings determines the configuration of a node: the node's own file if there is one,
// else the text that PBS has sent.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// Source says where a node's configuration is read from.
type Source struct {
	File  string // the node's own file, which may not exist
	State string // the state directory, with a copy of PBS's configuration in force
}

// Settings is the configuration of this node.
type Settings struct {
	File    *config.File
	Path    string // the file that File was read from; "" for the defaults
	Own     bool   // File is the node's own, regardless of PBS's configuration
	PBS     Sent   // what PBS has sent
	InForce []byte // the text from PBS that is File; nil for the node's own file or the defaults
	Refused error  // why PBS's last configuration is not in force

	before *Settings // PBS's previous configuration, or the defaults
}

// Instead describes, for people, the configuration in force instead of the Refused one.
func (s *Settings) Instead() string {
	if s.InForce == nil {
		return "the defaults are"
	}
	return "the one before is"
}

// Mistake is an error of the person who wrote the configuration.
type Mistake struct{ error }

// Unwrap returns the mistake.
func (m Mistake) Unwrap() error { return m.error }

// maxOwn is larger than any node's own configuration, in bytes.
const maxOwn = 4 << 20

// readTrusted reads a configuration of at most so many bytes, which names programs and paths. Root
// trusts a file only if other users can neither write nor replace it.
func readTrusted(path string, most int64) ([]byte, error) {
	if !IsRoot() {
		return os.ReadFile(path)
	}
	b, err := plugin.ReadTrusted(path, most)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: root has to own it and the directories above it, and nobody else to write to them", err)
	}
	return b, err
}

// IsRoot reports whether this process is root of this host. A user can be root of a user namespace,
// in which nobody owns the files of the host's root.
func IsRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	if info, err := os.Stat("/"); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid == 0 {
			return true
		}
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || slices.Equal(strings.Fields(string(b)), []string{"0", "0", "4294967295"})
}

// Read reads the configuration: the node's own file if there is one or must is set, else PBS's
// configuration. Without either, the defaults apply. An error in the node's own file is a Mistake.
// If the text from PBS is invalid, the previous one stays in force: see Refused. An upgrade that no
// longer knows a key may make both invalid. That is a Mistake too, because the defaults may not fit
// the live jobs.
func (s Source) Read(must bool) (Settings, error) {
	text, err := readTrusted(s.File, maxOwn)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return s.readSent(config.Default().OpenPBS)
	}
	if err != nil {
		return Settings{}, Mistake{fmt.Errorf("read configuration: %w", err)}
	}
	pbs := config.OpenPBSOf(text)
	here, err := Here(&pbs)
	if err != nil {
		return Settings{}, err
	}
	file, err := config.Parse(text, here)
	if err == nil {
		err = config.CheckOwn(text)
	}
	if err != nil {
		return Settings{}, Mistake{fmt.Errorf("configuration %s: %w", s.File, err)}
	}
	return Settings{File: file, Path: s.File, Own: true, PBS: readSent(&pbs)}, nil
}

// readSent reads the configuration of a node that has no file.
func (s Source) readSent(pbs config.OpenPBS) (Settings, error) {
	here, err := Here(&pbs)
	if err != nil {
		return Settings{}, err
	}
	read := Settings{PBS: readSent(&pbs)}
	if read.File, err = config.Parse(nil, here); err != nil || read.PBS.Path == "" {
		return read, err
	}
	state := nodestate.Dir(s.State)
	text, lost := state.Configuration()
	if lost == nil && text != nil {
		var file *config.File
		if file, lost = config.Parse(text, here); lost == nil {
			read.File, read.Path, read.InForce = file, state.ConfigurationFile(), text
		}
	}
	file, err := read.PBS.parse(here)
	switch {
	case err != nil && lost != nil:
		return read, Mistake{fmt.Errorf("%w; the one before, %s, is invalid too: %w", err,
			state.ConfigurationFile(), lost)}
	case err != nil:
		read.Refused = err
		return read, nil
	}
	before := read
	read.before = &before
	read.File, read.Path, read.InForce = file, read.PBS.Path, read.PBS.Text
	return read, nil
}

// Stay keeps the previous configuration in force if there are live jobs and PBS's last one has
// another prefix or mount of cgroups. Otherwise a daemon that starts would not find these jobs.
// live counts the recorded jobs of a prefix, which this process has not locked yet.
func (s *Settings) Stay(live func(prefix string) (int, error)) error {
	if s.before == nil {
		return nil
	}
	was, is := s.before.File.Cgroup, s.File.Cgroup
	if was.Prefix == is.Prefix && was.Mount == is.Mount {
		return nil
	}
	n, err := live(was.Prefix)
	if err != nil || n == 0 {
		return err
	}
	refused := fmt.Errorf("configuration %s: cgroup.prefix %q, cgroup.mount %q: jobs that live below %q, %q: %d: "+
		"it needs a restart while none does", s.PBS.Path, is.Prefix, is.Mount, was.Prefix, was.Mount, n)
	*s = *s.before
	s.Refused = refused
	return nil
}
