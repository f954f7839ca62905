package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

func TestBytesOfDisksAreSummed(t *testing.T) {
	for _, tt := range []struct {
		parse         func(string) (read, written *int64, err error)
		text          string
		read, written int64 // -1 if unknown
	}{
		{parseIOStat, "", 0, 0},
		{parseIOStat, "8:0 rbytes=4096 wbytes=10 rios=1 cost.vrate=1.5\n8:16 rbytes=1 wbytes=2\n254:0 \n", 4097, 12},
		{parseBlkio, "8:0 Read 7\n8:0 Write 5\n8:0 Total 12\n8:16 Read 1\nTotal 13\n", 8, 5},
		{parseBlkio, "Total 0\n", -1, -1},
	} {
		read, written, err := tt.parse(tt.text)
		must.NoError(t, err)
		if bytesOf(read) != tt.read || bytesOf(written) != tt.written {
			t.Errorf("%q: %d and %d", tt.text, bytesOf(read), bytesOf(written))
		}
	}
	for text, parse := range map[string]func(string) (read, written *int64, err error){
		"8:0 rbytes=x\n": parseIOStat, "8:0 Read -1\n": parseBlkio,
	} {
		if _, _, err := parse(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func bytesOf(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// A job's direct I/O shows if the node counts I/O by job. The disk is a loop device: every machine
// can have one, and it may be limited without harm to others.
func TestUsageCountsBytesOfDisks(t *testing.T) {
	w := needKernel(t, 0)
	tree := w.tree(t, "blkio")
	j := newJob(t, tree, testJob, tree.someLimits())
	disk := loopDevice(t)
	if d, v1 := j.with("blkio"); v1 && !d.h.v2 {
		// Linux 6.10 and later count a disk only after some cgroup has limited it.
		major, minor, err := BlockDevice(disk)
		must.NoError(t, err)
		limit := fmt.Sprintf("%d:%d %d", major, minor, 1<<30)
		must.NoError(t, d.Write("blkio.throttle.write_bps_device", limit))
	} else if !tree.Has("io") {
		kernfstest.Elsewhere(t, "no controller that counts io")
	}
	const written = 1 << 20
	join := j.Join()
	proctest.Start(t, &exec.Cmd{Path: "/bin/dd",
		Args: []string{"dd", "if=/dev/zero", "of=" + disk, "bs=64k", "count=16", "oflag=direct"}},
		func(pid int) { join.enter(t, pid) })
	must.Eventually(t, "what was written", func() bool {
		u, err := j.Usage()
		return err == nil && u.WriteBytes != nil && *u.WriteBytes >= written
	})
}

// loopDevice returns the name of a block device of 8 MiB, which is removed after the test.
func loopDevice(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	must.NoError(t, os.WriteFile(file, nil, 0o600), os.Truncate(file, 8<<20))
	name, err := exec.Command("losetup", "--find", "--show", file).Output()
	must.NoError(t, err)
	device := strings.TrimSpace(string(name))
	t.Cleanup(func() { must.NoError(t, exec.Command("losetup", "--detach", device).Run()) })
	return device
}
