package cgroup

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

func TestMeterParsesWhatTheKernelWrites(t *testing.T) {
	m := &Meter{}
	for _, c := range []struct {
		parse func([]byte) error
		text  string
		got   *float64
		want  float64
	}{
		{func(b []byte) error { return parseNumber(&m.now.CPU, b, 1e9) }, "1500000000\n", &m.now.CPU, 1.5},
		{m.cpu, "usage_usec 2500000\nuser_usec 1\n", &m.now.CPU, 2.5},
		{m.io, "", &m.now.ReadBytes, 0},
		{m.io, "8:0 rbytes=4096 wbytes=10 rios=1 wios=1\n8:16 rbytes=1 wbytes=2\n254:0 \n", &m.now.ReadBytes, 4097},
		{m.io, "8:0 rbytes=4096 wbytes=10 rios=1 wios=1\n8:16 rbytes=1 wbytes=2\n", &m.now.WriteBytes, 12},
		{m.blkio, "8:0 Read 7\n8:0 Write 5\n8:0 Total 12\n8:16 Read 1\nTotal 13\n", &m.now.ReadBytes, 8},
		{func(b []byte) error { return parseSome(&m.now.CPUPressure, b) },
			"some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0.00 total=7\n", &m.now.CPUPressure, 2},
		{func(b []byte) error { return m.memory(&v2Memory, b) }, "anon 100\nfile 70\nkernel 9\nshmem 30\n",
			&m.now.RSS, 130},
		{func(b []byte) error { return m.memory(&v2Memory, b) }, "anon 100\nfile 70\nkernel 9\nshmem 30\n",
			&m.now.Cache, 40},
		{func(b []byte) error { return m.memory(&v1Memory, b) }, "cache 1\ntotal_cache 70\ntotal_rss 100\n",
			&m.now.RSS, 100}, // Linux 4.12
	} {
		m.now = nothing
		if err := c.parse([]byte(c.text)); err != nil || *c.got != c.want {
			t.Errorf("%q: %v, %v; want %v", c.text, *c.got, err, c.want)
		}
	}
	m.now.ReadBytes = math.NaN()
	if err := m.blkio([]byte("Total 0\n")); err != nil || !math.IsNaN(m.now.ReadBytes) {
		t.Errorf("no device: %v, %v", m.now.ReadBytes, err)
	}
	for text, parse := range map[string]func([]byte) error{
		"8:0 rbytes=x\n": m.io, "8:0 Read -1\n": m.blkio, "usage_usec\n": m.cpu,
		"some avg10=0.00\n": func(b []byte) error { return parseSome(&m.now.CPUPressure, b) },
	} {
		if err := parse([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestReadingOfAJobLeavesNoGarbage(t *testing.T) {
	_, tree := needMemory(t)
	m := newJob(t, tree, testJob, tree.someLimits()).Meter()
	defer m.Close()
	read := func() {
		if _, err := m.Read(); err != nil {
			t.Error(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

func TestReadingOfAJobThatIsGoneIsNotFound(t *testing.T) {
	_, tree := needMemory(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	m := j.Meter()
	defer m.Close()
	if _, err := m.Read(); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, j.Remove(context.Background()))
	if _, err := m.Read(); !errors.Is(err, ErrNotFound) {
		t.Errorf("with its files open: %v", err)
	}
	if _, err := j.Meter().Read(); !errors.Is(err, ErrNotFound) {
		t.Errorf("without: %v", err)
	}
}

// A job's direct I/O shows if the node counts I/O by job.
func TestReadingCountsBytesOfDisks(t *testing.T) {
	w := needKernel(t, 0)
	tree := w.tree(t, "blkio")
	j := newJob(t, tree, testJob, tree.someLimits())
	m := j.Meter()
	defer m.Close()
	r, err := m.Read()
	must.NoError(t, err)
	if d, v1 := j.with("blkio"); v1 && !d.h.v2 {
		text, err := d.h.mount.ReadFile("blkio.throttle.io_service_bytes_recursive")
		must.NoError(t, err)
		if !strings.Contains(string(text), "Read") {
			if !math.IsNaN(r.WriteBytes) {
				t.Errorf("%v bytes written, which this kernel does not count", r.WriteBytes)
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
		r, err = m.Read()
		return err == nil && r.WriteBytes >= written
	})
}
