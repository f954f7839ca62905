package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// TestMain turns the test program into a job's process if it was started as one. It fails when
// tests leave directories, processes or goroutines behind.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == actorArg {
		if err := act(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Set("test.parallel", "6") // parallel tests spend most of their time waiting
	os.Exit(kernfstest.Run(m, testPrefix()))
}

func testPrefix() string {
	if outside := os.Getenv(inNamespace); outside != "" { // in its pid namespace every run has pid 1
		return "hhtest_hookcgroup_" + outside + "_ns"
	}
	return fmt.Sprintf("hhtest_hookcgroup_%d", os.Getpid())
}

const actorArg = "-cgroup-hook-test-actor"

// A process that hangs in the kernel has to do so in its first thread, whose state is shown for it.
func init() {
	if len(os.Args) > 2 && os.Args[1] == actorArg && os.Args[2] == "stat" {
		runtime.LockOSThread()
	}
}

// act is what a job's process does: it says when it is ready, and then waits to be killed.
func act(what string, args []string) error {
	switch what {
	case "sleep":
	case "ignore": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
	case "burn": // uses cpu time
		fmt.Println("ready")
		//lint:ignore SA5002 cpu time is to be burnt
		for {
		}
	case "stop":
		fmt.Println("ready")
		if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(time.Hour) // the reader of "ready" reads no more: SIGPIPE might come before SIGTERM is noticed
	case "hook": // PREFIX UNIT JOB=BYTES,...
		return actHook(args[0], args[1], args[2])
	case "trace": // PID...
		if err := kernfstest.TraceExit(args...); err != nil {
			return err
		}
	case "stat": // FILE, which may take for ever
		fmt.Println("ready")
		os.Stat(args[0])
	case "map": // FILE, and holds the own memory map while it reads FILE
		fmt.Println("ready")
		if err := holdMap(args[0]); err != nil {
			return err
		}
	case "hold": // BYTES, having read FILE
		if err := hold(args[0]); err != nil {
			return err
		}
		if err := read(args[1]); err != nil {
			return err
		}
	case "keep": // BYTES, when told to
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		if err := hold(args[0]); err != nil {
			return err
		}
		time.Sleep(time.Hour)
	case "buffer": // KIND BYTES, when told to
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		if err := buffer(args[0], args[1]); err != nil {
			return err
		}
		time.Sleep(time.Hour)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

// holdMap reads a mapped file through /proc/self/mem. The kernel has locked the memory map, as a
// reader, until the file system has answered (access_remote_vm).
func holdMap(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY, 0) // os.Open would ask whether it can be read
	if err != nil {
		return err
	}
	b, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return err
	}
	defer mem.Close()
	mem.ReadAt(make([]byte, 1), int64(uintptr(unsafe.Pointer(&b[0]))))
	return nil
}

func hold(bytes string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < n; i += os.Getpagesize() {
		b[i] = 1
	}
	return nil
}

func read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return err
}
