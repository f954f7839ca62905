package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// socketDir is the directory of the sockets of one host's programs, or of one program of a job's
// owner. Others can pass through the directory but not list it. Each program's socket is in a
// further directory that only the program's user can enter.
type socketDir string

const hostDirPrefix = "host-"

// A unix socket's path has at most 107 bytes; two random names of go-plugin's come behind that of
// the host's directory.
const maxRuntimeDir = 107 - len("/"+hostDirPrefix+"4294967295/plugin-dir4294967295/plugin4294967295")

// newSocketDir makes a directory for this host and removes those of hosts that were killed. The
// caller is the only one that has a host in the runtime directory.
func newSocketDir(runtime string) (socketDir, error) {
	if len(runtime) > maxRuntimeDir {
		return "", fmt.Errorf("runtime directory %s: %d bytes, %d fit before a socket's name", runtime, len(runtime),
			maxRuntimeDir)
	}
	if err := prepareRuntime(runtime); err != nil {
		return "", fmt.Errorf("runtime directory %s: %w", runtime, err)
	}
	return makeSocketDir(runtime, hostDirPrefix)
}

func makeSocketDir(parent, prefix string) (socketDir, error) {
	path, err := os.MkdirTemp(parent, prefix)
	if err == nil {
		err = os.Chmod(path, 0o711)
	}
	if err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	return socketDir(path), nil
}

// prepareRuntime makes the runtime directory and removes what hosts that were killed left in it.
func prepareRuntime(dir string) error {
	if err := disk.MakeDir(dir); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, hostDirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		_ = removeDir(path, programDepth)
	}
	return nil
}

// programDepth is how many levels of files there are in a host's directory: each program's, and its
// socket.
const programDepth = 2

// removeDir removes a directory and the files in it, to that depth, and fails if more is there. A
// program with user=pbsuser has a directory that its user can write to. The user decides how deep
// the tree in it goes, and each level would cost root a descriptor.
func removeDir(path string, depth int) error {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	// Nothing is added from here on: its user may have let others write to it before.
	if err := errors.Join(d.Chown(os.Geteuid(), os.Getegid()), d.Chmod(0o700)); err != nil {
		return err
	}
	for {
		names, err := d.Readdirnames(256)
		for _, name := range names {
			in := filepath.Join(path, name)
			if os.Remove(in) != nil && depth > 1 {
				_ = removeDir(in, depth-1)
			}
		}
		if err != nil { // io.EOF
			return os.Remove(path)
		}
	}
}

// owners is where the sockets of programs with user=pbsuser are. Their users can write beside a
// socket, as much as the file system has room, and /tmp is theirs to fill anyway. The runtime
// directory is not: it is on /run, which the whole node needs.
const owners = "/tmp"

// newOwnersDir makes the directory for the socket of one program of a job's owner. Others can pass
// through it, and only root can change it. A directory that a killed host leaves goes with the rest
// of /tmp.
func newOwnersDir() (socketDir, error) { return makeSocketDir(owners, "hookhost-") }

// remove removes the directory. The programs have ended.
func (s socketDir) remove() error { return removeDir(string(s), programDepth) }
