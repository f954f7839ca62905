package proc

import (
	"bytes"
	"errors"
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

// Alive reports whether the process id is still running: see Check. A process that cannot be read
// counts as alive, since a running process must not be given up because of a missing descriptor.
func Alive(procfs *kernfs.FS, id hostapi.ProcessID) bool {
	return !errors.Is(Check(procfs, id), ErrGone)
}

// Check fails with ErrGone unless the process id is still running. Zombies and processes of another
// boot are not running. An id without a boot id is assumed to be from this boot. Other errors come
// from reading.
func Check(procfs *kernfs.FS, id hostapi.ProcessID) error {
	p, err := readStat(procfs, strconv.Itoa(id.PID))
	if err != nil {
		return err
	}
	runs := !p.Dead() && p.StartTime == id.StartTime
	if runs && id.BootID != "" {
		boot, err := BootID(procfs)
		if err != nil {
			return err
		}
		runs = boot == id.BootID
	}
	if !runs {
		return fmt.Errorf("process %d: %w", id.PID, ErrGone)
	}
	return nil
}
