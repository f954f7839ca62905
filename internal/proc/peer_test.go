package proc

import (
	"os"
	"testing"

	"github.com/prometheus/procfs"
)

// procfs reads the same files by other code.
func TestReadAgreesWithProcfs(t *testing.T) {
	peer, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getpid(), os.Getppid(), 1} {
		ours, err := Read(procFS(t), pid)
		if err != nil {
			t.Fatal(err)
		}
		p, err := peer.Proc(pid)
		if err != nil {
			t.Fatal(err)
		}
		stat, err := p.Stat()
		if err != nil {
			t.Fatal(err)
		}
		status, err := p.NewStatus()
		if err != nil {
			t.Fatal(err)
		}
		theirs := Process{PID: stat.PID, Leader: status.TGID, StartTime: stat.Starttime, PPID: stat.PPID, PGRP: stat.PGRP, Session: stat.Session,
			UID: int(status.UIDs[0]), EUID: int(status.UIDs[1]), GID: int(status.GIDs[0]), Comm: stat.Comm, State: ours.State}
		if ours != theirs {
			t.Errorf("we read %+v, procfs %+v", ours, theirs)
		}
	}
}
