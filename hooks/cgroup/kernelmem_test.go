package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// buffer holds so many bytes in the kernel: in sockets or pipes that nobody reads.
func buffer(kind, text string) error {
	want, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10) // one for all: the runtime frees nothing here
	for want > 0 {
		var fds [2]int // what is written to the second lies until somebody reads the first
		switch kind {
		case "unix":
			fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		case "pipe":
			if err = unix.Pipe(fds[:]); err == nil {
				unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, 1<<20) // where it may not, it is a smaller one
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

// connection returns both ends of a TCP connection by way of the loopback.
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

var kept []any // open to the end of the process

// Kernel memory that only the job can give back counts beyond what is usual; caches of files do
// not.
func TestRSSCountsKernelMemory(t *testing.T) {
	onFakes(t, byRSS, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=160mb"))
		pid := n.launch("1.srv")
		k.Charge(pid, kernfstest.Memory{Anon: 155 * mib, File: 300 * mib, Slab: 500 * mib, Kernel: 10 * mib})
		n.staysAlive("1.srv")
		k.Charge(pid, kernfstest.Memory{Kernel: 20 * mib})
		n.awaitDeath("1.srv")
		n.wantExcess("1.srv", "=>> PBS: job killed: mem 179200kb exceeded limit 163840kb, "+
			"20480kb of it in the kernel: buffers of sockets and pipes, page tables")
	})
}

// The report's mem is of anonymous and shared memory, whatever the job was killed for.
func TestRSSReportsNoKernelMemoryAsMem(t *testing.T) {
	onFakes(t, byRSS, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=160mb"))
		k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: 8 * mib, Kernel: 300 * mib})
		n.awaitDeath("1.srv")
		out := n.do(hostapi.EventEpilogue, "1.srv")
		// A sample that comes late infers as much more as the cpus may have set aside.
		if out.Usage == nil || out.Usage.MemBytes == nil || *out.Usage.MemBytes/mib != 8 {
			t.Errorf("usage %+v", out.Usage)
		}
	})
}

// A job cannot hold in sockets or pipes what it may not hold as memory.
func TestKernelRSSCountsBuffers(t *testing.T) {
	const bound = 64 * mib
	for _, kind := range []string{"tcp", "unix", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			n := realNode(t, byRSS)
			size := int64(100 * mib)
			if caches := n.cachesInTheWay(kind); caches > 1<<30 {
				kernfstest.Elsewhere(t, "v1 does not tell this from the node's caches of files, which are %d MiB",
					caches>>20)
			} else {
				size += caches
			}
			n.begin("1.srv", asks("ncpus=1", fmt.Sprintf("mem=%db", int64(bound))))
			a := startActor(t, n.launches("1.srv"), "buffer", kind, fmt.Sprint(size))
			n.staysAlive("1.srv")
			a.stdin.Close()
			n.awaitDeath("1.srv")
			n.wantKilled(`^=>> PBS: job killed: mem \d+kb exceeded limit 65536kb, \d+kb of it in the kernel: `)
		})
	}
}

// The kernel bounds buffers of TCP by mem on v1, too, where it counts them beside all else. Each
// socket is granted a little all the same, so that there are only a hundred here.
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
	// The writer goes on until the kernel takes no more, or until it has what it wants.
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
	if most > mem+mem/4 { // what the kernel cannot refuse, it grants
		t.Errorf("%d MiB of buffers, want %d", most>>20, mem>>20)
	}
}

// Names of files that the kernel remembers for a job are its caches, not the job's memory.
func TestKernelRSSLeavesCachesOut(t *testing.T) {
	n := realNode(t, byRSS)
	n.begin("1.srv", asks("ncpus=1", "mem=24mb"))
	sh := startShell(t, n.launches("1.srv")) // with the race detector this program has 24 MiB itself
	// tmpfs, as /tmp may be, remembers none.
	fmt.Fprintln(sh.In, `i=0; while [ $i -lt 120000 ]; do [ -e /usr/there-is-no-file-of-this-name-$$-$i ]; i=$((i+1)); done; echo`)
	if line, err := sh.Out.ReadString('\n'); err != nil {
		t.Fatalf("the shell: %q, %v", line, err)
	}
	n.staysAlive("1.srv")
	held, err := n.cgroup("1.srv").Resident(0)
	must.NoError(t, err)
	u, err := n.cgroup("1.srv").Usage()
	must.NoError(t, err)
	t.Logf("holds %+v; at most it was %d MiB", held, *u.CgroupPeak/mib)
}

// cachesInTheWay is what of a job's kernel memory v1 takes for caches: as much as the node has of
// them.
func (n *node) cachesInTheWay(kind string) int64 {
	n.t.Helper()
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.kmem.usage_in_bytes"); err != nil || kind == "tcp" {
		return 0
	}
	b, err := os.ReadFile("/proc/meminfo")
	must.NoError(n.t, err)
	found := regexp.MustCompile(`(?m)^SReclaimable: +(\d+) kB$`).FindSubmatch(b)
	if found == nil {
		n.t.Fatalf("meminfo: %s", bytes.TrimSpace(b))
	}
	kb, err := strconv.ParseInt(string(found[1]), 10, 64)
	must.NoError(n.t, err)
	return kb << 10
}

func TestKernelMemoryBeyondItsShareIsCharged(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		held        cgroup.Resident
		mem, kernel int64
	}{
		{cgroup.Resident{}, 0, 0},
		{cgroup.Resident{Used: 64 * mb, Kernel: 4 * mb}, 64 * mb, 0},
		{cgroup.Resident{Used: 64 * mb, Kernel: 5 * mb}, 65 * mb, mb},
		{cgroup.Resident{Used: 900 * mb}, 900 * mb, 0},
	} {
		if mem, kernel := charged(tt.held, 64*mb); mem != tt.mem || kernel != tt.kernel {
			t.Errorf("%+v: %d, %d; want %d, %d", tt.held, mem, kernel, tt.mem, tt.kernel)
		}
	}
}
