package cgroup

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// A job's direct I/O shows if the node counts I/O by job.
func TestUsageCountsBytesOfDisks(t *testing.T) {
	w := needKernel(t, 0)
	tree := w.tree(t, "blkio")
	j := newJob(t, tree, testJob, tree.someLimits())
	u, err := j.Usage()
	must.NoError(t, err)
	if d, v1 := j.with("blkio"); v1 && !d.h.v2 {
		text, err := d.h.mount.ReadFile(blkioBytes)
		must.NoError(t, err)
		if !strings.Contains(string(text), "Read") {
			if u.WriteBytes != nil {
				t.Errorf("%d bytes written, which this kernel does not count", *u.WriteBytes)
			}
			kernfstest.Elsewhere(t, "no device is counted on cgroup v1")
		}
	} else if !tree.Has("io") {
		kernfstest.Elsewhere(t, "no controller that counts io")
	}
	const written = 1 << 20
	dir, err := os.MkdirTemp("/var/tmp", "hookhost") // on a disk, even if /tmp is in memory
	must.NoError(t, err)
	defer os.RemoveAll(dir)
	var st unix.Statfs_t
	must.NoError(t, unix.Statfs(dir, &st))
	if st.Type == unix.TMPFS_MAGIC || st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		kernfstest.Elsewhere(t, "/var/tmp is on no disk")
	}
	join := j.Join()
	proctest.Start(t, &exec.Cmd{Path: "/bin/dd",
		Args: []string{"dd", "if=/dev/zero", "of=" + dir + "/data", "bs=64k", "count=16", "oflag=direct"}},
		func(pid int) { join.enter(t, pid) })
	must.Eventually(t, "what was written", func() bool {
		u, err = j.Usage()
		return err == nil && u.WriteBytes != nil && *u.WriteBytes >= written
	})
}
