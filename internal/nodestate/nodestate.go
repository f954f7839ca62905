// Package nodestate stores the few facts about this node that survive its jobs, its hooks and a
// reboot.
//
//	offline                     why the node's vnodes are offline; see Offline
//	configuration               PBS's configuration that is in force; see Configuration
//	vnodes                      the vnodes of NUMA nodes that PBS was told of; see Vnodes
//
// They are in the state directory. A file is replaced either completely or not at all, and is on
// disk when the call returns. Only root can write there, so the contents are trusted.
package nodestate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hookhost/hookhost/internal/disk"
)

// Dir is a state directory. "" stores nothing and contains nothing.
type Dir string

const (
	offlineFile = "offline"
	configFile  = "configuration"
	vnodesFile  = "vnodes"
)

// Offline is a cause for which PBS was asked to take vnodes of this node offline.
type Offline struct {
	Comment string    `json:"comment"` // what was added to their comment
	Since   time.Time `json:"since"`
	Vnodes  []string  `json:"vnodes"`
	// Over means that the cause is over, but PBS has not been told yet.
	Over bool `json:"over,omitempty"`
	// Final means that PBS is not asked again for a vnode that is online. It has been asked twice,
	// or an administrator has brought the vnodes back.
	Final bool `json:"final,omitempty"`
}

// Offline returns the causes by name, none if the vnodes are online.
func (d Dir) Offline() (map[string]*Offline, error) { return load[*Offline](d, offlineFile) }

// SetOffline stores the causes. It is idempotent.
func (d Dir) SetOffline(causes map[string]*Offline) error { return store(d, offlineFile, causes) }

// ConfigurationFile returns the path of the copy that Configuration reads.
func (d Dir) ConfigurationFile() string { return d.path(configFile) }

// Configuration returns the last configuration from PBS that the daemon put in force, or nil. This
// copy stays in force as long as PBS's newer one is invalid.
func (d Dir) Configuration() ([]byte, error) { return d.read(configFile) }

// SetConfiguration stores the configuration in force, or nil for none. It is idempotent.
func (d Dir) SetConfiguration(text []byte) error { return d.replace(configFile, text) }

// Vnodes returns the vnodes other than the natural one that were reported to PBS, by name with
// their resources_available, or nil if there are none.
func (d Dir) Vnodes() (map[string]map[string]string, error) {
	return load[map[string]string](d, vnodesFile)
}

// SetVnodes stores the vnodes that were reported to PBS. It is idempotent.
func (d Dir) SetVnodes(vnodes map[string]map[string]string) error {
	return store(d, vnodesFile, vnodes)
}

// load returns the entries of a file, never nil without an error. A damaged file is ignored.
func load[T any](d Dir, name string) (map[string]T, error) {
	b, err := d.read(name)
	if err != nil {
		return nil, err
	}
	entries := map[string]T{}
	if len(b) > 0 && (json.Unmarshal(b, &entries) != nil || entries == nil) {
		return map[string]T{}, nil
	}
	return entries, nil
}

func store[T any](d Dir, name string, entries map[string]T) error {
	if len(entries) == 0 {
		return d.replace(name, nil)
	}
	b, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	return d.replace(name, append(b, '\n'))
}

// replace writes a file unless it already has that text. For an empty text it removes the file.
func (d Dir) replace(name string, text []byte) error {
	if d == "" {
		return nil
	}
	if len(text) == 0 {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if have, err := d.read(name); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return disk.Replace(d.path(name), text, 0o600)
}

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// read returns nil without an error for a missing file.
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
