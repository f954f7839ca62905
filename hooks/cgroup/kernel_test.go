package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/proc"
)

var prefixes atomic.Int64

// realNode is this machine, as root, with a prefix of its own.
func realNode(t testing.TB, edit func(*config.File)) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	roots, err := kernfs.OpenRoots()
	if err != nil {
		kernfstest.Skip(t, "open roots: %v", err)
	}
	opt := cgroup.Options{Prefix: fmt.Sprintf("%s_%d", testPrefix(), prefixes.Add(1))}
	tree, err := cgroup.Detect(roots, opt)
	if err != nil {
		kernfstest.Skip(t, "%v", err)
	}
	for _, c := range []string{"memory", "cpuset", "cpu", "pids"} {
		if !tree.Has(c) {
			kernfstest.Skip(t, "no %s controller", c)
		}
	}
	t.Cleanup(func() { removeUnit(t, opt.Prefix) })
	n := node{
		start: func(t testing.TB, join *hostapi.Join) int { return startActor(t, join, "sleep").child.PID },
		lives: func(pid int) bool {
			p, err := proc.Read(roots.Proc, pid)
			return err == nil && !p.Dead()
		},
	}
	return newNode(t, n, roots, opt, edit)
}

// removeUnit removes the parents of all jobs.
func removeUnit(t testing.TB, prefix string) {
	for _, pattern := range []string{"/sys/fs/cgroup/*/%s.service/job*", "/sys/fs/cgroup/%s.service/job*", "/sys/fs/cgroup/*/%s.service", "/sys/fs/cgroup/%s.service"} {
		dirs, err := filepath.Glob(fmt.Sprintf(pattern, prefix))
		if err != nil {
			t.Error(err)
		}
		for _, dir := range dirs {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("rmdir %s: %v", dir, err)
			}
		}
	}
}

// actor is this test program as a job's process.
type actor struct {
	child *proc.Child
	stdin *os.File
}

// startActor starts one and waits until it is ready.
func startActor(t testing.TB, join *hostapi.Join, what string, args ...string) actor {
	t.Helper()
	if join == nil {
		join = &hostapi.Join{}
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer outR.Close()
	// GOMAXPROCS and GOGC keep the runtime's own use of cpu and memory small beside what the tests measure.
	child, err := proc.Start(&proc.Spec{Path: "/proc/self/exe", Args: append([]string{"actor", actorArg, what}, args...),
		Env: []string{"GOMAXPROCS=1", "GOGC=off"}, Stdin: inR, Stdout: outW, Stderr: os.Stderr}, *join)
	inR.Close()
	outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Signal(unix.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
			t.Error(err)
		}
		if _, err := child.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		inW.Close()
	})
	if line, err := bufio.NewReader(outR).ReadString('\n'); err != nil {
		t.Fatalf("%s: %q: %v", what, line, err)
	}
	return actor{child: child, stdin: inW}
}
