package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// The program itself, with a library that stands in for NVML, is tested where it is: cmd/nvml.

// stand writes a shell script that stands in for the program.
func stand(t *testing.T, script string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "nvml")
	must.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return program
}

// leavesNoGoroutine returns a check that no goroutine runs that does not run now. It waits for a
// minute, goleak alone for half a second.
func leavesNoGoroutine(t *testing.T) (check func()) {
	now := goleak.IgnoreCurrent()
	return func() {
		for end := time.Now().Add(time.Minute); goleak.Find(now) != nil && time.Now().Before(end); {
		}
		goleak.VerifyNone(t, now)
	}
}

func TestAskNVML(t *testing.T) {
	defer leavesNoGoroutine(t)()
	got, err := AskNVML(t.Context(), stand(t, `[ "$*" = '--limit 1m10s inventory' ] && [ "$PWD" = / ] && [ -z "$LD_LIBRARY_PATH$HOME" ] &&
		! read x && echo '{"driver":"550","gpus":[{"uuid":"GPU-1","minor":1}]}'`), time.Minute)
	want := &NVIDIA{Driver: "550", GPUs: []NVIDIAGPU{{UUID: "GPU-1", Minor: 1}}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("AskNVML: %v (-want +got):\n%s", err, d)
	}
	usage, err := AskNVMLUsage(t.Context(), stand(t, `echo "{\"devices\":{\"$4\":{\"energy_mj\":5},\"$5\":{}}}"`),
		time.Minute, "GPU-1", "GPU-2")
	energy := uint64(5)
	if d := cmp.Diff(&NVIDIAUsage{Devices: map[string]NVIDIACounters{"GPU-1": {EnergyMillijoules: &energy},
		"GPU-2": {}}}, usage); err != nil || d != "" {
		t.Errorf("AskNVMLUsage: %v (-want +got):\n%s", err, d)
	}
	if err := NVMLAccountingOn(t.Context(), stand(t, `[ "$3 $4" = 'account on' ]`), time.Minute); err != nil {
		t.Errorf("NVMLAccountingOn: %v", err)
	}
}

func TestAskNVMLErrors(t *testing.T) {
	defer leavesNoGoroutine(t)()
	garbage := stand(t, "")
	must.NoError(t, os.WriteFile(garbage, []byte("\x00\x01neither ELF nor a script"), 0o755))
	locked := stand(t, "")
	must.NoError(t, os.Chmod(locked, 0o644))
	for _, tt := range []struct {
		name, program string
		none          bool
		want          string // in the error
	}{
		{"not there", "/nonexistent/nvml", true, "/nonexistent/nvml: no such file or directory"},
		{"no interpreter, as with another C library", noInterpreter(t), true, "no such file or directory"},
		{"not executable as a format", garbage, true, "exec format error"},
		{"not executable by mode", locked, false, "permission denied"},
		{"relative", "nvml", false, `program "nvml": not an absolute path`},
		{"no library", stand(t, "echo 'nvml: no NVML here: libnvidia-ml.so.1: cannot open' >&2; exit 3"), true,
			"no NVML: libnvidia-ml.so.1: cannot open"},
		{"the dynamic linker refuses", stand(t, "echo \"$0: libc.so.6: version GLIBC_2.99 not found\" >&2; exit 1"),
			true, "GLIBC_2.99 not found"},
		{"failed", stand(t, "printf 'nvml: initialise: mismatch\\nmore\\n' >&2; exit 1"), false,
			"ask NVML inventory: initialise: mismatch"},
		{"failed without a word", stand(t, "exit 1"), false, "exit status 1"},
		{"crashed", stand(t, "kill -SEGV $$"), false, "segmentation fault"},
		{"panicked", stand(t, "echo 'panic: oh' >&2; exit 2"), false, "exit status 2: panic: oh"},
		{"no JSON", stand(t, "echo GPU 0"), false, "invalid character"},
		{"an endless answer", stand(t, "exec yes"), false, "longer than 8388608 bytes"},
		{"endless complaints", stand(t, "yes >&2; echo '{}'; exit 3"), true, "y"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AskNVML(t.Context(), tt.program, time.Minute)
			if got != nil || err == nil || errors.Is(err, ErrNoNVML) != tt.none ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("AskNVML: %v, %v, want an error with %q, ErrNoNVML %v", got, err, tt.want, tt.none)
			}
		})
	}
}

func noInterpreter(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nvml")
	must.NoError(t, os.WriteFile(program, []byte("#!/nonexistent/ld-linux.so.2\n"), 0o755))
	return program
}

// The limit ends the program and all that it started, also what holds its output.
func TestAskNVMLLimit(t *testing.T) {
	defer leavesNoGoroutine(t)()
	for _, tt := range []struct{ name, script string }{
		{"it hangs", `echo $$ >"$0.pid"; exec sleep 1000`},
		{"it ignores signals and has children", `trap '' TERM HUP INT; sleep 1000 & echo $! >"$0.pid"; wait`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program := stand(t, tt.script)
			var pid int
			for limit := 100 * time.Millisecond; pid == 0; limit *= 2 { // until the script got that far
				_, err := AskNVML(t.Context(), program, limit)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNoNVML) ||
					!strings.Contains(err.Error(), "ask NVML inventory: no answer within ") {
					t.Fatalf("AskNVML: %v, want: no answer within %v", err, limit)
				}
				pid = pidIn(program + ".pid")
			}
			must.Eventually(t, fmt.Sprintf("the end of pid %d", pid), func() bool { return !runs(pid) })
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := AskNVML(ctx, stand(t, "exec sleep 1000"), time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("AskNVML: %v, want context.Canceled", err)
		}
	})
	t.Run("a child outlives it", func(t *testing.T) {
		program := stand(t, `sleep 1000 & echo $! >"$0.pid"; echo '{"driver":"550","gpus":[]}'`)
		if got, err := AskNVML(t.Context(), program, time.Hour); err != nil || got.Driver != "550" {
			t.Errorf("AskNVML: %v, %v, want driver 550", got, err)
		}
		pid := pidIn(program + ".pid")
		must.Eventually(t, fmt.Sprintf("the end of pid %d", pid), func() bool { return !runs(pid) })
	})
}

// runs reports whether a process is there and no zombie, which an orphan may stay where nobody
// reaps.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func pidIn(path string) int {
	text, _ := os.ReadFile(path)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// A process that is frozen on v1 is in uninterruptible sleep and does not die of SIGKILL, like one
// in a driver that hangs.
func TestAskNVMLHangsInTheKernel(t *testing.T) {
	kernfstest.NeedV1(t, "freezer")
	defer leavesNoGoroutine(t)()
	dir := fmt.Sprintf("/sys/fs/cgroup/freezer/hhtest_inventory_%d", os.Getpid())
	write := func(file, value string) {
		t.Helper()
		must.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(value), 0))
	}
	must.NoError(t, os.Mkdir(dir, 0o755))
	defer func() {
		write("freezer.state", "THAWED")
		must.Eventually(t, "removal of "+dir, func() bool { return unix.Rmdir(dir) == nil })
	}()

	program := stand(t, `echo $$ >"$0.pid"; exec sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := AskNVML(ctx, program, time.Hour)
		asked <- err
	}()
	must.Eventually(t, "the program", func() bool { return pidIn(program+".pid") != 0 })
	pid := pidIn(program + ".pid")
	write("cgroup.procs", strconv.Itoa(pid))
	write("freezer.state", "FROZEN")
	must.Eventually(t, "frozen", func() bool {
		state, _ := os.ReadFile(filepath.Join(dir, "freezer.state"))
		return string(state) == "FROZEN\n"
	})
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), fmt.Sprintf("pid %d hangs in the kernel", pid)) {
		t.Errorf("AskNVML: %v, want that pid %d hangs", err, pid)
	}
	if !runs(pid) {
		t.Fatalf("pid %d died: this test shows nothing", pid)
	}

	unused := stand(t, `touch "$0.ran"; echo '{}'`)
	for range 2 {
		_, err := AskNVML(t.Context(), unused, time.Minute)
		if want := fmt.Sprintf("ask NVML inventory: not asked again: pid %d hangs in the kernel since ",
			pid); err == nil || !strings.HasPrefix(err.Error(), want) || errors.Is(err, ErrNoNVML) {
			t.Errorf("AskNVML while it hangs: %v, want %q", err, want)
		}
	}
	if _, err := os.Stat(unused + ".ran"); err == nil {
		t.Error("another program was started while one hangs")
	}

	write("freezer.state", "THAWED")
	must.Eventually(t, "an answer after the driver woke up", func() bool {
		_, err := AskNVML(t.Context(), unused, time.Minute)
		return err == nil
	})
}
