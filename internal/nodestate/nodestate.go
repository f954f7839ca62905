// Package nodestate keeps the few facts about this node that outlive its jobs, its hooks and a boot.
//
//	PBS_HOME/mom_priv/vntype    what PBS calls the node's type; see Vntype
//	NAME.offline                that a hook has put the node's vnodes offline; see Offline
//
// The second is in the state directory. A file is replaced as a whole or not at all, and is on disk
// when its call returns. Only root writes into either directory, so what is read here is root's word.
package nodestate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Dir is a state directory. The empty one keeps nothing and has nothing.
type Dir string

const offlineSuffix = ".offline"

// Offline says that a hook has put the node's vnodes offline.
type Offline struct {
	Since time.Time `json:"since"`
	// Told: the answer to an event of PBS has said so. Until then only this file does.
	Told bool `json:"told"`
	// Before names the vnodes that somebody else had put offline before.
	Before []string `json:"before,omitempty"`
}

// Offline returns what the hook of that name has noted; nil without an error when its vnodes are on line.
func (d Dir) Offline(hook string) (*Offline, error) {
	b, err := d.read(hook + offlineSuffix)
	if err != nil || b == nil {
		return nil, err
	}
	o := &Offline{}
	if err := json.Unmarshal(b, o); err != nil {
		return nil, fmt.Errorf("read %s: %w", d.path(hook+offlineSuffix), err)
	}
	return o, nil
}

// AnyOffline tells whether a hook has put the node's vnodes offline.
func (d Dir) AnyOffline() (bool, error) {
	if d == "" {
		return false, nil
	}
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Type().IsRegular() && isNote(e.Name()) }), nil
}

// isNote leaves out what a write has left that was broken off: names that begin with a dot.
func isNote(name string) bool {
	return strings.HasSuffix(name, offlineSuffix) && !strings.HasPrefix(name, ".")
}

// SetOffline notes o, or with nil that the hook's vnodes are on line. Idempotent.
func (d Dir) SetOffline(hook string, o *Offline) error {
	if d == "" {
		return nil
	}
	if o == nil {
		if err := os.Remove(d.path(hook + offlineSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return d.write(hook+offlineSuffix, append(b, '\n'))
}

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// read returns nil without an error for a file that is not there.
func (d Dir) read(name string) ([]byte, error) {
	if d == "" {
		return nil, nil
	}
	b, err := os.ReadFile(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (d Dir) write(name string, b []byte) error {
	if d == "" {
		return nil
	}
	return replace(string(d), name, b, 0o600)
}

// replace gives a file of a directory another content and mode.
func replace(dir, name string, b []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(b); err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return sync(dir)
}

// sync makes a rename survive a power loss.
func sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return nil // renamed it is; whoever cannot open the directory cannot do more
	}
	defer f.Close()
	return f.Sync()
}
