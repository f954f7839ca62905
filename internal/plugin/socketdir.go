package plugin

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/disk"
)

// socketDir is the directory of the sockets of one host's programs. Only the user of the host can
// enter it.
type socketDir string

const hostDirPrefix = "host-"

// A unix socket's path has at most 107 bytes; go-plugin appends a random name to the path of the
// host's directory.
const maxRuntimeDir = 107 - len("/"+hostDirPrefix+"4294967295/plugin4294967295")

// newSocketDir makes a directory for this host and removes those of hosts that were killed. The
// caller must be the only one with a host in the runtime directory.
func newSocketDir(runtime string) (socketDir, error) {
	if len(runtime) > maxRuntimeDir {
		return "", fmt.Errorf("runtime directory %s: %d bytes, %d fit before a socket's name", runtime, len(runtime),
			maxRuntimeDir)
	}
	if err := prepareRuntime(runtime); err != nil {
		return "", fmt.Errorf("runtime directory %s: %w", runtime, err)
	}
	path, err := os.MkdirTemp(runtime, hostDirPrefix)
	if err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	return socketDir(path), nil
}

// prepareRuntime makes the runtime directory and removes files of hosts that were killed.
func prepareRuntime(dir string) error {
	if err := disk.MakeDir(dir); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, hostDirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		_ = os.RemoveAll(path)
	}
	return nil
}

// remove removes the directory. By then the programs have ended.
func (s socketDir) remove() error { return os.RemoveAll(string(s)) }
