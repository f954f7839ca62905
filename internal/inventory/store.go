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

// Load returns the inventory that Store left in the state directory dir; fs.ErrNotExist when there
// is none. An inventory that cannot be understood is an error too. The caller scans then.
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

// mostBytes bounds a file that Store might have written: devices by the thousand.
const mostBytes = 64 << 20

// read returns a regular file of bounded size. A FIFO in its place is an error, and is not waited
// for.
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

// Store keeps the inventory in the state directory dir, for Load of any process and any user. The
// file is replaced as a whole or not at all; it is not forced to disk, since a scan finds the same
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
