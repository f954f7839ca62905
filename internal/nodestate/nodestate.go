// Package nodestate keeps the few facts about this node that outlive its jobs, its hooks and a
// boot.
//
//	cgroup.offline              that hook cgroup has put the node's vnodes offline; see Offline
//	configuration               PBS's configuration that is in force; see Configuration
//	vnodes                      the vnodes of NUMA nodes that PBS was told of; see Vnodes
//
// They are in the state directory. A file is replaced as a whole or not at all, and is on disk when
// its call returns. Only root writes there, so what is read here is root's word.
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

// Dir is a state directory. The empty one keeps nothing and has nothing.
type Dir string

const (
	offlineFile = "cgroup.offline"
	configFile  = "configuration"
	vnodesFile  = "vnodes"
)

// Offline says that the hook cgroup has put the node's vnodes offline.
type Offline struct {
	Since time.Time `json:"since"`
	// Sent: the answer to an event of PBS has said so. Until then only this file does.
	Sent bool `json:"told"`
	// Vnodes names those that PBS was asked to put offline.
	Vnodes []string `json:"vnodes,omitempty"`
}

// Offline returns what was noted; nil without an error when the vnodes are on line. A note that
// somebody has damaged is one of which PBS was told when the file was changed. So the vnodes come
// back as others do.
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

// IsOffline reports whether there is a note, whatever it says.
func (d Dir) IsOffline() (bool, error) {
	b, err := d.read(offlineFile)
	return b != nil, err
}

// SetOffline notes o, or with nil that the vnodes are on line. Idempotent.
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

// Configuration returns the configuration of PBS's that the daemon took over last, nil where there
// is none. The copy is in force as long as the one that PBS has sent since does not hold.
func (d Dir) Configuration() ([]byte, error) { return d.read(configFile) }

// SetConfiguration keeps the configuration that was taken over, nil for none. Idempotent.
func (d Dir) SetConfiguration(text []byte) error { return d.replace(configFile, text) }

// Vnodes returns the vnodes beside the natural one that PBS was told of, by name with their
// resources_available; nil where there are none. A damaged note is none.
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

// SetVnodes notes the vnodes that PBS was told of. Idempotent.
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

// replace writes a file unless it is so already, and removes it for a text of no bytes.
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
