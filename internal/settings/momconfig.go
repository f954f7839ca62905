package settings

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
)

// Version is a version of a file. The zero value means that the file does not exist.
type Version struct {
	Inode   uint64
	Size    int64
	Changed int64 // ctime: the text, the owner or the mode; nanoseconds since 1970
}

// VersionOf returns the current version of a file.
func VersionOf(path string) Version {
	info, err := os.Lstat(path)
	if err != nil {
		return Version{}
	}
	return versionFrom(info)
}

func versionFrom(info fs.FileInfo) Version {
	v := Version{Size: info.Size()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		v.Inode, v.Changed = s.Ino, s.Ctim.Nano()
	}
	return v
}

// Sent is the configuration that PBS has sent to this node, which MoM stores beside the script.
type Sent struct {
	Path    string  // where MoM stores it; "" if hookhost's hook is not there
	There   bool    // this user could read the directory of MoM's hooks
	Version Version // zero if hookhost's hook has no configuration

	text []byte
	err  error // why the text cannot be read
}

// readSent reads the configuration from the MoM that o names.
func readSent(o *config.OpenPBS) Sent {
	home, err := o.MoMHome()
	if err != nil {
		return Sent{}
	}
	hooks := openpbs.HooksOf(home)
	name, err := hooks.Ours()
	s := Sent{There: err == nil}
	if name == "" {
		return s
	}
	s.Path = hooks.Config(name)
	s.text, s.Version, s.err = readTrusted(s.Path)
	if errors.Is(s.err, fs.ErrNotExist) {
		s.Version, s.err = Version{}, nil
	}
	return s
}

// parse returns the configuration on a node with these values for its conditions.
func (s Sent) parse(here config.Here) (*config.File, error) {
	if s.err != nil {
		return nil, s.err
	}
	file, err := config.Parse(s.text, here)
	if err == nil {
		err = config.CheckSent(s.text)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", s.Path, err)
	}
	return file, nil
}

// readTrusted reads a file that only root can write, in a folder that only root can write. The
// folders above it are MoM's. A file that is empty, or longer than MoM writes at once, may be
// incomplete and is an error.
func readTrusted(path string) ([]byte, Version, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, VersionOf(path), err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, VersionOf(path), err
	}
	v := versionFrom(info)
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, v, err
	}
	switch {
	case !isRoots(folder):
		return nil, v, fmt.Errorf("%s: others than root may write it", filepath.Dir(path))
	case !isRoots(info):
		return nil, v, fmt.Errorf("%s: others than root may write it", path)
	case !info.Mode().IsRegular():
		return nil, v, fmt.Errorf("%s: not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, openpbs.MaxConfig+1))
	switch {
	case err != nil:
		return nil, v, err
	case len(b) == 0:
		return nil, v, fmt.Errorf("%s: empty: pbs_mom has not written it yet", path)
	case len(b) > openpbs.MaxConfig:
		return nil, v, fmt.Errorf("%s: want %d bytes at most, which pbs_mom writes at once", path, openpbs.MaxConfig)
	}
	return b, v, nil
}

// isRoots reports whether a file belongs to root or this user, and nobody else may write it.
func isRoots(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || s.Uid == uint32(os.Geteuid())) && info.Mode().Perm()&0o022 == 0
}
