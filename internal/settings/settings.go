// Package settings determines the configuration of a node: the text that PBS has sent and the
// node's own file, which takes precedence.
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

// Settings is the configuration of this node and its sources.
type Settings struct {
	File    *config.File
	PBS     Sent
	InForce []byte // the text from PBS that is part of File; nil for none
	Refused error  // why File does not use the last text from PBS

	fallback     *config.File // the configuration with the text from PBS that was in force
	fallbackText []byte       // that text; nil for none
}

// Mistake is an error of the person who wrote the configuration.
type Mistake struct{ error }

// Unwrap returns the mistake.
func (m Mistake) Unwrap() error { return m.error }

// maxOwn is larger than any node's own configuration.
const maxOwn = 4 << 20

// readOwn reads the node's own configuration, which names programs and paths. Root trusts a file
// only if other users can neither write nor replace it.
func readOwn(path string) ([]byte, error) {
	if !IsRoot() {
		return os.ReadFile(path)
	}
	b, err := plugin.ReadTrusted(path, maxOwn)
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

// Read reads the configuration. If the node's own file is missing, the defaults apply, or Read
// fails if must is set. If PBS's configuration is invalid, the previous one stays in force: see
// Refused. The error for the node's own file is a Mistake.
func (s Source) Read(must bool) (Settings, error) {
	own, err := config.ReadLayer(s.File, must, readOwn)
	if err != nil {
		return Settings{}, Mistake{err}
	}
	var text []byte // a node without a file has the defaults
	for _, l := range own {
		text = l.Text
	}
	pbs := config.OpenPBSOf(text)
	here, err := Here(&pbs)
	if err != nil {
		return Settings{}, err
	}
	for _, l := range own {
		if err := config.CheckOwn(l.Text); err != nil {
			return Settings{}, Mistake{fmt.Errorf("configuration %s: %w", l.Name, err)}
		}
	}
	alone, err := config.Merge(here, own...)
	if err != nil {
		return Settings{}, Mistake{err}
	}
	read := Settings{File: alone, PBS: readSent(&alone.OpenPBS)}
	if read.PBS.Version == (Version{}) {
		return read, nil
	}
	fallback := read
	if before, err := nodestate.Dir(s.State).Configuration(); err == nil && before != nil {
		_ = fallback.over(here, before, own) // if it is no longer valid, there is no fallback
	}
	read.fallback, read.fallbackText = fallback.File, fallback.InForce
	if read.Refused = read.PBS.err; read.Refused == nil {
		read.Refused = read.over(here, read.PBS.text, own)
	}
	if read.Refused != nil {
		read.File, read.InForce = read.fallback, read.fallbackText
	}
	return read, nil
}

// over merges the node's own layer over the text that PBS has sent.
func (s *Settings) over(here config.Here, sent []byte, own []config.Layer) error {
	base := config.Layer{Name: s.PBS.Version.Path, Text: sent}
	if err := config.CheckSent(sent); err != nil {
		return fmt.Errorf("configuration %s: %w", base.Name, err)
	}
	file, err := config.Merge(here, append([]config.Layer{base}, own...)...)
	if err != nil {
		return err
	}
	s.File, s.InForce = file, sent
	return nil
}

// Stay keeps the previous configuration in force if jobs live and PBS's last one has another prefix
// or mount of cgroups. Otherwise a daemon that starts would not find these jobs. live counts the
// recorded jobs of a prefix, which this process has not locked yet.
func (s *Settings) Stay(live func(prefix string) (int, error)) error {
	if s.InForce == nil || s.Refused != nil {
		return nil
	}
	was, is := s.fallback.Cgroup, s.File.Cgroup
	if was.Prefix == is.Prefix && was.Mount == is.Mount {
		return nil
	}
	n, err := live(was.Prefix)
	if err != nil || n == 0 {
		return err
	}
	s.Refused = fmt.Errorf("configuration %s: cgroup.prefix %q, cgroup.mount %q: jobs that live below %q, %q: %d: "+
		"it needs a restart while none does", s.PBS.Version.Path, is.Prefix, is.Mount, was.Prefix, was.Mount, n)
	s.File, s.InForce = s.fallback, s.fallbackText
	return nil
}

// Called returns the name of a layer for people.
func (s *Settings) Called(l config.Layer) string {
	if s.InForce != nil && l.Name == s.PBS.Version.Path {
		return "PBS"
	}
	return l.Name
}
