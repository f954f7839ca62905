package proc

import (
	"errors"
	"fmt"
	"strconv"

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
	for _, dir := range dirs {
		if _, err := strconv.ParseUint(dir, 10, 31); err != nil {
			continue
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
