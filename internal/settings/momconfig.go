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

// Version is a version of a file. The zero value is that of a file that is not there.
type Version struct {
	Path    string
	Inode   uint64
	Size    int64
	Changed int64 // ctime: the text, the owner or the mode; nanoseconds since 1970
}

// VersionOf returns the version of a file that is there now.
func VersionOf(path string) Version {
	info, err := os.Lstat(path)
	if err != nil {
		return Version{}
	}
	return versionFrom(path, info)
}

func versionFrom(path string, info fs.FileInfo) Version {
	v := Version{Path: path, Size: info.Size()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		v.Inode, v.Changed = s.Ino, s.Ctim.Nano()
	}
	return v
}

// Sent is the configuration that PBS has sent to this node, as MoM has it beside the script.
type Sent struct {
	Dir     string  // of MoM's hooks; "" if nothing says where MoM has its home
	There   bool    // this user could look into Dir
	Version Version // zero if hookhost's hook has no configuration

	text []byte
	err  error // why the text cannot be had
}

// readSent reads what the MoM has that o names.
func readSent(o *config.OpenPBS) Sent {
	home, err := o.MoMHome()
	if err != nil {
		return Sent{}
	}
	hooks := openpbs.HooksOf(home)
	s := Sent{Dir: string(hooks)}
	name, err := hooks.Ours()
	s.There = err == nil
	if name == "" {
		return s
	}
	s.text, s.Version, s.err = readTrusted(hooks.Config(name))
	if errors.Is(s.err, fs.ErrNotExist) {
		s.Version, s.err = Version{}, nil
	}
	return s
}

// readTrusted reads a file that root alone may write, in a folder that root alone may write. The
// folders above are MoM's own. A file that is empty, or longer than MoM writes at once, may not be
// whole and is an error.
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
	v := versionFrom(path, info)
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

// isRoots reports whether a file is root's, or this user's, and nobody else may write it.
func isRoots(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || s.Uid == uint32(os.Geteuid())) && info.Mode().Perm()&0o022 == 0
}
