package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// buffer holds so many bytes in the kernel, in sockets or pipes that nobody reads.
func buffer(kind, text string) error {
	want, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10) // shared, because the runtime does not free it here
	for want > 0 {
		var fds [2]int // what is written to the second stays there until somebody reads the first
		switch kind {
		case "unix":
			fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		case "pipe":
			if err = unix.Pipe(fds[:]); err == nil {
				unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, 1<<20) // if that is not allowed, the pipe is smaller
			}
		case "tcp":
			fds, err = connection()
		default:
			err = fmt.Errorf("no buffers of kind %q", kind)
		}
		if err == nil {
			err = unix.SetNonblock(fds[1], true)
		}
		if err != nil {
			return err
		}
		for {
			n, err := unix.Write(fds[1], block)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return err
			}
			want -= int64(n)
		}
	}
	return nil
}

// connection returns both ends of a TCP connection over the loopback.
func connection() (fds [2]int, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fds, err
	}
	defer l.Close()
	to, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return fds, err
	}
	from, err := l.Accept()
	if err != nil {
		return fds, err
	}
	for i, c := range []net.Conn{from, to} {
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			return fds, err
		}
		kept = append(kept, f, c)
		fds[i] = int(f.Fd())
	}
	return fds, nil
}

var kept []any // open until the process ends

// With enforce = rss the kernel limits a job's sockets and pipes to mem plus the allowance for page
// cache. Beyond that it refuses, or kills.
func TestKernelRSSBoundsBuffers(t *testing.T) {
	const mem = 64 * mib
	for _, kind := range []string{"tcp", "unix", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			n := realNode(t, byRSS)
			n.begin("1.srv", asks("ncpus=1", fmt.Sprintf("mem=%db", int64(mem))))
			j := n.cgroup("1.srv")
			a := startActor(t, n.launches("1.srv"), "buffer", kind, fmt.Sprint(3*mem))
			if kind == "tcp" { // the kernel always grants each socket a little
				must.NoError(t, unix.Prlimit(a.child.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 220, Max: 220}, nil))
			}
			a.stdin.Close()
			most, start := int64(0), time.Now()
			since := start
			for len(n.inside("1.srv")) > 0 && (most < mem || time.Since(since) < 2*time.Second) {
				if now := n.buffered(j); now > most {
					most, since = now, time.Now()
				}
				if time.Since(start) > time.Minute {
					break // a TCP connection can accept data indefinitely, because its buffers are merged
				}
				time.Sleep(10 * time.Millisecond)
			}
			if u, err := j.Usage(); err == nil && u.CgroupPeak != nil { // the kernel may have been faster than the loop
				most = max(most, *u.CgroupPeak)
			}
			t.Logf("%d MiB at most", most/mib)
			if most < mem || most > 2*mem+mem/4 {
				t.Errorf("%d MiB in use, want %d to %d", most/mib, mem/mib, 2*mem/mib)
			}
		})
	}
}

// buffered is the job's memory, or its TCP buffers if v1 counts them separately and they are more.
func (n *node) buffered(j *cgroup.Job) (most int64) {
	n.t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		for _, file := range []string{"memory.usage_in_bytes", "memory.kmem.tcp.usage_in_bytes", "memory.current"} {
			b, err := os.ReadFile(filepath.Join(dir, j.MemoryPath(), file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			must.NoError(n.t, err)
			now, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
			must.NoError(n.t, err)
			most = max(most, now)
		}
	}
	return most
}

// The kernel limits TCP buffers to mem on v1, too, where it counts them separately from the rest.
// It always grants each socket a little, so the test uses only a hundred.
func TestKernelBoundsBuffersOfTCP(t *testing.T) {
	const mem = 64 * mib
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"); err != nil {
		kernfstest.Elsewhere(t, "no cgroup v1: v2 counts these buffers as all other memory")
	}
	n := realNode(t, nil)
	n.begin("1.srv", asks("ncpus=1", fmt.Sprintf("mem=%db", int64(mem))))
	dir := fmt.Sprintf("/sys/fs/cgroup/memory/%s_%d.service/jobid/1.srv", testPrefix(), prefixes.Load())
	number := func(file string) int64 {
		b, err := os.ReadFile(filepath.Join(dir, file))
		must.NoError(t, err)
		n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
		must.NoError(t, err)
		return n
	}
	a := startActor(t, n.launches("1.srv"), "buffer", "tcp", fmt.Sprint(160*mib))
	must.NoError(t, unix.Prlimit(a.child.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 220, Max: 220}, nil))
	a.stdin.Close()
	// The writer continues until the kernel accepts no more, or until it has written enough.
	most, since := int64(0), time.Now()
	for most < mem/2 || time.Since(since) < 2*time.Second {
		if now := number("memory.kmem.tcp.max_usage_in_bytes"); now > most {
			most, since = now, time.Now()
		}
		if time.Since(since) > time.Minute {
			t.Fatalf("%d MiB of buffers at most", most>>20)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if most > mem+mem/4 { // the kernel grants what it cannot refuse
		t.Errorf("%d MiB of buffers, want %d", most>>20, mem>>20)
	}
}

// File names that the kernel caches for a job do not count as the job's memory.
func TestKernelRSSLeavesCachesOut(t *testing.T) {
	n := realNode(t, byRSS)
	n.begin("1.srv", asks("ncpus=1", "mem=24mb"))
	sh := startShell(t, n.launches("1.srv")) // with the race detector this program itself has 24 MiB
	// tmpfs, which /tmp may be, does not cache names.
	fmt.Fprintln(sh.In, `i=0; while [ $i -lt 120000 ]; do [ -e /usr/there-is-no-file-of-this-name-$$-$i ]; i=$((i+1)); done; echo`)
	if line, err := sh.Out.ReadString('\n'); err != nil {
		t.Fatalf("the shell: %q, %v", line, err)
	}
	n.staysAlive("1.srv")
}
