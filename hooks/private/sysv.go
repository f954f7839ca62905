package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// ipcKinds are the kinds of System V IPC: the file in /proc/sysvipc, the column with the id, and
// the call that removes an object. Root needs no further right for that (ipcctl_obtain_check of
// ipc/util.c).
var ipcKinds = []struct {
	file, id string
	remove   func(id int) error
}{
	{"shm", "shmid", func(id int) error { return ipcControl(unix.SYS_SHMCTL, uintptr(id), unix.IPC_RMID, 0, 0) }},
	{"sem", "semid", func(id int) error { return ipcControl(unix.SYS_SEMCTL, uintptr(id), 0, unix.IPC_RMID, 0) }},
	{"msg", "msqid", func(id int) error { return ipcControl(unix.SYS_MSGCTL, uintptr(id), unix.IPC_RMID, 0, 0) }},
}

func ipcControl(call, a, b, c, d uintptr) error {
	if _, _, errno := unix.Syscall6(call, a, b, c, d, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// removeIPC removes the System V IPC objects that the user has made and that are in the window. It
// does not matter to whom the user has given them: any number could be given to users that do not
// exist. It returns how many it removed. Shared memory that a process of another user has attached
// is freed when that process detaches it.
func removeIPC(procfs *kernfs.FS, uid int, w window) (removed int, err error) {
	var errs []error
	for _, kind := range ipcKinds {
		text, err := procfs.ReadFile("sysvipc/" + kind.file)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without it
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ids, err := leftIPC(string(text), kind.id, uid, w)
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", procfs.Path("sysvipc/"+kind.file), err))
		}
		for _, id := range ids {
			err := kind.remove(id)
			if err == nil {
				removed++
			} else if err != unix.EINVAL && err != unix.EIDRM { // it is gone
				errs = append(errs, fmt.Errorf("remove %s %d: %w", kind.id, id, err))
			}
		}
	}
	return removed, errors.Join(errs...)
}

// leftIPC returns the ids of the objects in a file of /proc/sysvipc that the user has made and that
// are in the window. The file's first line names its columns.
func leftIPC(text, idColumn string, uid int, w window) (ids []int, err error) {
	var id, creator, changed int
	columns := map[string]*int{idColumn: &id, "cuid": &creator, "ctime": &changed}
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if names == nil {
			names = fields
			continue
		}
		if len(fields) != len(names) {
			return ids, fmt.Errorf("%d fields in %.100q, want %d", len(fields), line, len(names))
		}
		read := 0
		for i, name := range names {
			to := columns[name]
			if to == nil {
				continue
			}
			if *to, err = strconv.Atoi(fields[i]); err != nil {
				return ids, err
			}
			read++
		}
		if read != len(columns) {
			return ids, fmt.Errorf("columns %q: not all of %s, cuid and ctime", names, idColumn)
		}
		if at := time.Unix(int64(changed), 0); creator == uid && w.contains(at, at) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
