// Package nodestate stores the few facts about this node that survive its jobs, its hooks and a
// reboot.
//
//	cgroup.offline              that hook cgroup has put the node's vnodes offline; see Offline
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
	offlineFile = "cgroup.offline"
	configFile  = "configuration"
	vnodesFile  = "vnodes"
)

// Offline records that hook cgroup has taken the node's vnodes offline.
type Offline struct {
	Since time.Time `json:"since"`
	// Sent means that an answer to an event of PBS contained this. Until then PBS does not know it.
	Sent bool `json:"told"`
	// Vnodes names the vnodes that PBS was asked to take offline.
	Vnodes []string `json:"vnodes,omitempty"`
}

// Offline returns the note, or nil without an error if the vnodes are online. A damaged note counts
// as sent at the time when the file was changed. So the vnodes come back online like others.
func (d Dir) Offline() (*Offline, error) {
	b, err := d.read(offlineFile)
	if err != nil || b == nil {
		return nil, err
	}
	o := &Offline{}
	if json.Unmarshal(b, o) == nil && !o.Since.IsZero() {
		return o, nil
	}
	info, err := os.Stat(d.path(offlineFile))
	if err != nil {
		return nil, err
	}
	return &Offline{Since: info.ModTime(), Sent: true}, nil
}

// IsOffline reports whether there is a note, regardless of its contents.
func (d Dir) IsOffline() (bool, error) {
	b, err := d.read(offlineFile)
	return b != nil, err
}

// SetOffline stores o. With nil it records that the vnodes are online. It is idempotent.
func (d Dir) SetOffline(o *Offline) error {
	if o == nil {
		return d.replace(offlineFile, nil)
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return d.replace(offlineFile, append(b, '\n'))
}

// ConfigurationFile returns the path of the copy that Configuration reads.
func (d Dir) ConfigurationFile() string { return d.path(configFile) }

// Configuration returns the last configuration from PBS that the daemon put in force, or nil. This
// copy stays in force as long as PBS's newer one is invalid.
func (d Dir) Configuration() ([]byte, error) { return d.read(configFile) }

// SetConfiguration stores the configuration in force, or nil for none. It is idempotent.
func (d Dir) SetConfiguration(text []byte) error { return d.replace(configFile, text) }

// Vnodes returns the vnodes other than the natural one that were reported to PBS, by name with
// their resources_available, or nil if there are none. A damaged note is ignored.
func (d Dir) Vnodes() (map[string]map[string]string, error) {
	b, err := d.read(vnodesFile)
	if err != nil {
		return nil, err
	}
	var vnodes map[string]map[string]string
	if json.Unmarshal(b, &vnodes) != nil {
		return nil, nil
	}
	return vnodes, nil
}

// SetVnodes stores the vnodes that were reported to PBS. It is idempotent.
func (d Dir) SetVnodes(vnodes map[string]map[string]string) error {
	if len(vnodes) == 0 {
		return d.replace(vnodesFile, nil)
	}
	b, err := json.Marshal(vnodes)
	if err != nil {
		return err
	}
	return d.replace(vnodesFile, append(b, '\n'))
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
