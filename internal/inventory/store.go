package inventory

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// file is the inventory's name in the state directory.
const file = "devices.json"

// Load returns the inventory that Store wrote to the state directory dir. Without one the error is
// fs.ErrNotExist. An inventory that cannot be parsed is an error too. The caller then scans.
func Load(dir string) (*Inventory, error) {
	b, err := read(filepath.Join(dir, file))
	if err != nil {
		return nil, fmt.Errorf("load inventory: %w", err)
	}
	inv := &Inventory{}
	if err := json.Unmarshal(b, inv); err != nil {
		return nil, fmt.Errorf("load inventory %s: %w", filepath.Join(dir, file), err)
	}
	return inv, nil
}

// mostBytes is more than Store ever writes, even with thousands of devices.
const mostBytes = 64 << 20

// read returns the contents of a regular file of limited size. A FIFO in its place is an error and
// does not block.
func read(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostBytes {
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", name, int64(mostBytes))
	}
	return io.ReadAll(f)
}

// Store writes the inventory to the state directory dir, where any process of any user can Load it.
// The file is replaced atomically. It is not forced to disk, since a scan would find the same
// again.
func (inv *Inventory) Store(dir string) error {
	b, err := json.MarshalIndent(inv, "", "\t")
	if err == nil {
		err = disk.ReplaceUnsynced(filepath.Join(dir, file), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("store inventory: %w", err)
	}
	return nil
}
