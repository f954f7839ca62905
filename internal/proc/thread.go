package proc

import (
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Running returns the directory of /proc that shows the memory, the program and the v1 cgroups of
// the process pid. Usually that is the process's own. If its first thread has ended and others run
// on (pthread_exit(3)), it is that of another thread. Running fails with ErrGone if all have ended.
func Running(procfs *kernfs.FS, pid int) (dir string, err error) {
	dir = strconv.Itoa(pid)
	first, err := readStat(procfs, dir)
	if err != nil || !first.Exiting {
		return dir, err
	}
	threads, err := procfs.Numbers(dir + "/task")
	if err != nil {
		return "", gone("list threads of process "+dir, err)
	}
	for _, tid := range threads {
		of := dir + "/task/" + strconv.Itoa(tid)
		if thread, err := readStat(procfs, of); err == nil && !thread.Exiting {
			return of, nil
		}
	}
	return "", fmt.Errorf("find a thread of process %s: %w", dir, ErrGone)
}
