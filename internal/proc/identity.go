package proc

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// BootID returns the id of this boot, a UUID.
func BootID(procfs *kernfs.FS) (string, error) {
	b, err := procfs.ReadFile("sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return string(bytes.TrimSpace(b)), nil
}

// Self returns the identity of the calling process.
func Self(procfs *kernfs.FS) (hostapi.ProcessID, error) { return identify(procfs, "self") }

func identify(procfs *kernfs.FS, dir string) (hostapi.ProcessID, error) {
	p, err := readStat(procfs, dir)
	if err != nil {
		return hostapi.ProcessID{}, err
	}
	boot, err := BootID(procfs)
	if err != nil {
		return hostapi.ProcessID{}, err
	}
	return hostapi.ProcessID{PID: p.PID, StartTime: p.StartTime, BootID: boot}, nil
}

// Alive reports whether the process id still runs. A zombie does not; neither does anything of
// another boot. An id without a boot id is taken to be of this boot. A process that cannot be read
// counts as not alive.
func Alive(procfs *kernfs.FS, id hostapi.ProcessID) bool {
	p, err := readStat(procfs, strconv.Itoa(id.PID))
	if err != nil || p.Dead() || p.StartTime != id.StartTime {
		return false
	}
	if id.BootID == "" {
		return true
	}
	boot, err := BootID(procfs)
	return err == nil && boot == id.BootID
}
