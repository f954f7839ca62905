package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// SessionMembers returns the live processes of the session sid, in the order of /proc. A process forked while /proc
// is walked may be missing; who needs all of them attaches what there is and asks again until nothing is new.
func SessionMembers(procfs *kernfs.FS, sid int) ([]Process, error) {
	dirs, err := procfs.Dirs(".")
	if err != nil {
		return nil, fmt.Errorf("list session %d: %w", sid, err)
	}
	var members []Process
	asks := isOwn(procfs)
	for _, dir := range dirs {
		pid, err := strconv.ParseUint(dir, 10, 31)
		if err != nil {
			continue
		}
		if asks { // getsid(2) takes a fiftieth of the time that a file takes
			if has, err := unix.Getsid(int(pid)); err == nil && has != sid || errors.Is(err, unix.ESRCH) {
				continue
			}
		}
		// One file decides for the many that do not belong; the owner is read only for those that do.
		p, err := readStat(procfs, dir)
		if err == nil && p.Session == sid && !p.Dead() {
			p, err = read(procfs, dir)
		}
		switch {
		case errors.Is(err, ErrGone):
		case err != nil:
			return nil, fmt.Errorf("list session %d: %w", sid, err)
		case p.Session == sid && !p.Dead():
			members = append(members, p)
		}
	}
	return members, nil
}

// isOwn tells whether procfs is where this process finds itself: a /proc of its own pid namespace, whose numbers system calls know.
func isOwn(procfs *kernfs.FS) bool {
	self, err := readStat(procfs, "self")
	if err != nil || self.PID != os.Getpid() {
		return false
	}
	sid, err := unix.Getsid(0)
	return err == nil && sid == self.Session
}
