package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// fileID tells versions of a file apart. The zero value is that of a file that is not there.
type fileID struct {
	path    string
	inode   uint64
	size    int64
	changed int64 // ctime: the text, the owner or the mode; nanoseconds since 1970
}

// identify returns which version of a file there is.
func identify(path string) fileID {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}
	}
	return idOf(path, info)
}

func idOf(path string, info fs.FileInfo) fileID {
	id := fileID{path: path, size: info.Size()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode, id.changed = s.Ino, s.Ctim.Nano()
	}
	return id
}

// pbsConfig is the configuration that PBS has sent to this node, as MoM has it beside the script.
type pbsConfig struct {
	dir   string // that MoM's hooks are in; "" where nothing tells
	there bool   // this user could look into it
	id    fileID // with the path; zero where our hook has no configuration
	text  []byte
	err   error // why the text cannot be had
}

// readPBSConfig reads what the MoM has that o tells of.
func readPBSConfig(o *config.OpenPBS) pbsConfig {
	home, err := o.MoMHome()
	if err != nil {
		return pbsConfig{}
	}
	hooks := openpbs.HooksOf(home)
	p := pbsConfig{dir: string(hooks)}
	name, err := hooks.Ours()
	p.there = err == nil
	if name == "" {
		return p
	}
	p.text, p.id, p.err = readTrusted(hooks.Config(name))
	if errors.Is(p.err, fs.ErrNotExist) {
		p.id, p.err = fileID{}, nil
	}
	return p
}

// readTrusted reads a file that root alone may write, in a folder that root alone may write. A file
// that is empty, or longer than MoM writes at once, may not be whole and is an error.
func readTrusted(path string) ([]byte, fileID, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, identify(path), err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, identify(path), err
	}
	id := idOf(path, info)
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, id, err
	}
	switch {
	case !isRoots(folder):
		return nil, id, fmt.Errorf("%s: others than root may write it", filepath.Dir(path))
	case !isRoots(info):
		return nil, id, fmt.Errorf("%s: others than root may write it", path)
	case !info.Mode().IsRegular():
		return nil, id, fmt.Errorf("%s: not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, openpbs.MaxConfig+1))
	switch {
	case err != nil:
		return nil, id, err
	case len(b) == 0:
		return nil, id, fmt.Errorf("%s: empty: pbs_mom has not written it yet", path)
	case len(b) > openpbs.MaxConfig:
		return nil, id, fmt.Errorf("%s: want %d bytes at most, which pbs_mom writes at once", path, openpbs.MaxConfig)
	}
	return b, id, nil
}

// isRoots tells whether a file is root's, or this user's, and nobody else may write it.
func isRoots(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || s.Uid == uint32(os.Geteuid())) && info.Mode().Perm()&0o022 == 0
}

// settings is the configuration of this node and what it was made of.
type settings struct {
	file    *config.File
	own     string // the node's own file, there or not
	pbs     pbsConfig
	sent    []byte       // what of PBS's is in file; nil for nothing
	refused error        // why that is not what PBS has sent last
	before  *config.File // with what of PBS's was in force before
	kept    []byte       // that; nil for nothing
}

// maxOwn is more than any node's own configuration has.
const maxOwn = 4 << 20

// readOwn reads the node's own configuration. Root believes it only where others can neither write
// nor replace it: it names programs and paths.
func readOwn(path string) ([]byte, error) {
	if os.Geteuid() != 0 {
		return os.ReadFile(path)
	}
	b, err := host.ReadTrusted(path, maxOwn)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: root has to own it and the directories above it, and nobody else to write to them", err)
	}
	return b, err
}

// settings reads the configuration: what PBS has sent, and above it the node's own file, which must
// be there or is the defaults. A configuration of PBS's that does not hold leaves the one before in
// force. A node's own file that does not hold is an error.
func (c *cli) settings(must bool) (settings, error) {
	own, err := config.ReadLayer(c.config, must, readOwn)
	if err != nil {
		return settings{}, misuse(err)
	}
	var pbs config.OpenPBS
	for _, l := range own {
		pbs = config.OpenPBSOf(l.Text)
	}
	here, err := hereWith(&pbs)
	if err != nil {
		return settings{}, err
	}
	for _, l := range own {
		if err := config.CheckOwn(l.Text); err != nil {
			return settings{}, misuse(fmt.Errorf("configuration %s: %w", l.Name, err))
		}
	}
	alone, err := config.Merge(here, own...)
	if err != nil {
		return settings{}, misuse(err)
	}
	s := settings{file: alone, own: c.config, pbs: readPBSConfig(&alone.OpenPBS)}
	if s.pbs.id == (fileID{}) {
		return s, nil
	}
	kept := s
	if before, err := nodestate.Dir(c.state).Configuration(); err == nil && before != nil {
		_ = kept.over(here, before, own) // one that does not hold any more is none
	}
	s.before, s.kept = kept.file, kept.sent
	if s.refused = s.pbs.err; s.refused == nil {
		s.refused = s.over(here, s.pbs.text, own)
	}
	if s.refused != nil {
		s.file, s.sent = s.before, s.kept
	}
	return s, nil
}

// stay leaves the configuration before PBS's last one in force for a daemon that starts, where the
// last one has another prefix or mount of cgroups and jobs live. Their cgroups would not be found.
// The caller does not have the lock yet, which goes by the prefix.
func (c *cli) stay(s *settings) error {
	if s.sent == nil || s.refused != nil {
		return nil
	}
	was, is := s.before.Cgroup, s.file.Cgroup
	if was.Prefix == is.Prefix && was.Mount == is.Mount {
		return nil
	}
	live, err := jobstate.Count(c.recordsDir(was.Prefix))
	if err != nil || live == 0 {
		return err
	}
	s.refused = fmt.Errorf("configuration %s: cgroup.prefix %q, cgroup.mount %q: %d jobs live below %q, %q: it needs a restart while none does",
		s.pbs.id.path, is.Prefix, is.Mount, live, was.Prefix, was.Mount)
	s.file, s.sent = s.before, s.kept
	return nil
}

// over puts the node's own layer over what PBS has sent.
func (s *settings) over(here config.Here, sent []byte, own []config.Layer) error {
	base := config.Layer{Name: s.pbs.id.path, Text: sent}
	if err := config.CheckSent(sent); err != nil {
		return fmt.Errorf("configuration %s: %w", base.Name, err)
	}
	file, err := config.Merge(here, append([]config.Layer{base}, own...)...)
	if err != nil {
		return err
	}
	s.file, s.sent = file, sent
	return nil
}

// called is what a layer is called in config show.
func (s *settings) called(l config.Layer) string {
	if s.sent != nil && l.Name == s.pbs.id.path {
		return "PBS"
	}
	return l.Name
}
