package proc

import (
	"os"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/hookhost/hookhost/internal/must"
)

// procfs reads the same files by other code.
func TestReadAgreesWithProcfs(t *testing.T) {
	peer, err := procfs.NewFS("/proc")
	must.NoError(t, err)
	for _, pid := range []int{os.Getpid(), os.Getppid(), 1} {
		ours, err := Read(procFS(t), pid)
		must.NoError(t, err)
		p, err := peer.Proc(pid)
		must.NoError(t, err)
		stat, err := p.Stat()
		must.NoError(t, err)
		status, err := p.NewStatus()
		must.NoError(t, err)
		theirs := Process{PID: stat.PID, Leader: status.TGID, StartTime: stat.Starttime, PPID: stat.PPID,
			PGRP: stat.PGRP, Session: stat.Session, UID: int(status.UIDs[0]), EUID: int(status.UIDs[1]),
			GID: int(status.GIDs[0]), Comm: stat.Comm, State: ours.State,
			CPU: ours.CPU, RSS: ours.RSS, Threads: ours.Threads} // they change from read to read
		if ours != theirs {
			t.Errorf("we read %+v, procfs %+v", ours, theirs)
		}
	}
}
