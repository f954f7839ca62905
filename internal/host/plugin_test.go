package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// Each way in which a hook can fail is told apart, in one line that names the hook and the cause.
func TestFailuresOfAHookAreToldApart(t *testing.T) {
	tests := []struct {
		name, program, config string
		set                   []string
		message               string // the end of it
		kind                  hostapi.Kind
		action                hostapi.JobAction
		failAction            bool
	}{
		{name: "reject", config: `mode = "reject"` + "\n" + `value = "no"`,
			message: "execjob_begin request rejected by 'h': no"},
		{name: "rerun", config: `mode = "rerun"` + "\n" + `value = "later"`,
			message: "execjob_begin request rejected by 'h': later", action: "rerun"},
		{name: "job error", config: `mode = "error"` + "\n" + `value = "job"`, kind: "job", action: "delete",
			message: "execjob_begin request rejected by 'h': error of kind job"},
		{name: "busy error", config: `mode = "error"` + "\n" + `value = "busy"`, kind: "busy", action: "rerun",
			message: "execjob_begin request rejected by 'h': error of kind busy"},
		{name: "node error", config: `mode = "error"` + "\n" + `value = "node"`, kind: "node", action: "rerun",
			failAction: true,
			message:    "execjob_begin hook 'h' encountered an exception, request rejected: error of kind node"},
		{name: "internal error", config: `mode = "error"` + "\n" + `value = "internal"`, kind: "internal",
			action: "hold", failAction: true,
			message: "encountered an exception, request rejected: error of kind internal (system hold set)"},
		{name: "crash", config: `mode = "exit"`, kind: "internal", action: "hold", failAction: true,
			message: "execjob_begin hook 'h' encountered an exception, request rejected: crashed twice: exit status " +
				"4 (system hold set)"},
		{name: "killed", config: `mode = "kill"`, kind: "internal", action: "hold", failAction: true,
			message: "crashed twice: signal: killed (system hold set)"},
		{name: "panic", config: `mode = "panic"` + "\n" + `value = "boom"`, kind: "internal", action: "hold",
			failAction: true,
			message:    "panic in execjob_begin: misbehave: boom (system hold set)"},
		{name: "panic aside", config: `mode = "panic-aside"` + "\n" + `value = "boom"`, kind: "internal",
			action: "hold", failAction: true,
			message: "crashed twice: panic: misbehave: boom (system hold set)"},
		{name: "hang", config: `mode = "hang"`, set: []string{"alarm=1"}, kind: "timeout", action: "rerun",
			failAction: true,
			message:    "alarm call while running execjob_begin hook 'h', request rejected: alarm after 1s"},
		{name: "misfit", config: `mode = "misfit"`, kind: "internal", action: "hold", failAction: true,
			message: `outcome of execjob_begin: job_action: "explode" is none of rerun, delete, hold (system hold set)`},
		{name: "huge", config: `mode = "huge"` + "\n" + `value = "70000000"`, kind: "internal", action: "hold",
			failAction: true, message: "received message larger than max"},
		{name: "long", config: `mode = "huge"` + "\n" + `value = "9000000"`, message: "rejected by 'h': xxx"},
		{name: "nonsense", program: "nonsense", kind: "internal", action: "hold", failAction: true,
			message: "outcome of execjob_begin: invalid character"},
		{name: "refused configuration", config: `mode = "configure"` + "\n" + `value = "so"`, kind: "node",
			action: "rerun", failAction: true,
			message: "start hook h: configuration refused: so"},
		{name: "unknown key", config: `mood = "bad"`, kind: "node", action: "rerun", failAction: true,
			message: "line 1: mood: unknown key"},
		{name: "print early", program: "print-early", kind: "node", action: "rerun", failAction: true,
			message: `start hook h: it printed "hello from misbehave" before the handshake: nothing may be printed to ` +
				"standard output before it (docs/hooks-any-language.md; in Go, main must call"},
		{name: "wrong version", program: "wrong-version", kind: "node", action: "rerun", failAction: true,
			message: "start hook h: its answer is not that of a hook: incompatible API version with plugin. Plugin " +
				"version: 99, Client versions: [1]"},
		{name: "exit at start", program: "exit-at-start", kind: "node", action: "rerun", failAction: true,
			message: "start hook h: it ended before it was ready: exit status 3: " +
				"misbehave: exits at its start"},
		{name: "slow start", program: "slow-start", kind: "node", action: "rerun", failAction: true,
			message: "start hook h: not ready after 500ms"},
		{name: "no events", program: "no-events", kind: "node", action: "rerun", failAction: true,
			message: "handles no event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			if tt.program == "slow-start" {
				n.options = func(o *Options) { o.StartTimeout = 500 * time.Millisecond }
			} else if tt.program == "" {
				tt.program = "misbehave"
			}
			n.hook("h", tt.program, tt.config, append(tt.set, "fail_action=offline_vnodes")...)
			v := judge(t, n.open(), hostapi.EventBegin, "1.srv")
			if !v.Reject || v.Kind != tt.kind || v.Hook != "h" || v.OnReject != tt.action {
				t.Errorf("reject=%v kind=%q hook=%q job_action=%q, want kind %q and job_action %q", v.Reject, v.Kind,
					v.Hook, v.OnReject, tt.kind, tt.action)
			}
			if !strings.Contains(v.Message, tt.message) || strings.Contains(v.Message, "\n") {
				t.Errorf("message %q\nwant  ... %q", v.Message, tt.message)
			}
			if len(v.Message) > hostapi.MaxLine+100 {
				t.Errorf("a message of %d bytes", len(v.Message))
			}
			if acts := len(v.FailAction) > 0; acts != tt.failAction {
				t.Errorf("fail_action %v, want it to act: %v", v.FailAction, tt.failAction)
			}
			if rec := n.record("1.srv"); rec != nil {
				t.Errorf("a rejected begin left the record %+v", rec)
			}
		})
	}
}

func TestChangedProgramIsRefused(t *testing.T) {
	n := newNode(t)
	n.hook("h", "deny", "")
	program, err := os.ReadFile(filepath.Join(plugintest.Programs(), "deny"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Import("h", plugin.ContentProgram, bytes.NewReader(program)); err != nil {
		t.Fatal(err)
	}
	h, err := n.registry.Get("h")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Program, append(program, 0), 0o711); err != nil {
		t.Fatal(err)
	}
	v := judge(t, n.open(), hostapi.EventBegin, "1.srv")
	if want := "sha256"; !strings.Contains(v.Message, want) || v.Kind != hostapi.KindNode {
		t.Errorf("%s %q, want a node error about %s", v.Kind, v.Message, want)
	}
}

// An event that waits for the start of a hook is not rejected because somebody kills the program
// meanwhile.
func TestEventOutlivesAKilledStart(t *testing.T) {
	n := newNode(t)
	n.hook("h", "misbehave", fmt.Sprintf("mode = \"kill\"\nevent = \"exechost_startup\"\nonce = %q",
		filepath.Join(n.dir, "once")))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A crash in an event is nothing that the job notices: the program is started again and gets the
// event once more.
func TestCrashIsReplayedOnce(t *testing.T) {
	for _, mode := range []string{"exit", "kill", "panic-aside"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.hook("h", "misbehave", fmt.Sprintf("mode = %q\nonce = %q\nlog = %q", mode, filepath.Join(n.dir, "once"),
				filepath.Join(n.dir, "log")))
			h := n.open()
			must(t, h, hostapi.EventBegin, "1.srv")
			want := "exechost_startup - 1 execjob_begin 1.srv 1 exechost_startup - 1 execjob_begin 1.srv 1"
			if got := strings.Join(n.calls("log"), " "); got != want {
				t.Errorf("calls: %s\nwant:  %s", got, want)
			}
			must(t, h, hostapi.EventEnd, "1.srv")
		})
	}
}

// A program that dies while nothing happens is started again at once: it may have watches to keep.
func TestRestartWhenIdle(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("h", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	pid := hookPID(t, h, "h")
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	process.Kill()
	plugintest.Eventually(t, "started again", func() bool { p := hookPID(t, h, "h"); return p != pid && p != 0 })
	must(t, h, hostapi.EventLaunch, "1.srv")
	want := "exechost_startup - 1 execjob_begin 1.srv 1 exechost_startup - 1 execjob_launch 1.srv 1"
	if got := strings.Join(n.calls("log"), " "); got != want {
		t.Errorf("calls: %s\nwant:  %s", got, want)
	}
}

func hookPID(t testing.TB, h *Host, name string) int {
	list, err := h.Hooks()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s.PID
		}
	}
	return 0
}

// The alarm of one job kills the program under the others' events too. They are carried out again,
// and no crash of the program is counted for them.
func TestAlarmSparesOthers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	once := filepath.Join(n.dir, "once")
	n.hook("h", "misbehave", fmt.Sprintf("mode = %q\nonce = %q", "hang", once), "alarm=15")
	h := n.open()
	hangs := func() bool { _, err := os.Stat(once); return err == nil }
	var wg sync.WaitGroup
	wg.Go(func() {
		if v := judge(t, h, hostapi.EventBegin, "1.srv"); v.Kind != hostapi.KindTimeout {
			t.Errorf("job 1: kind %q, want timeout", v.Kind)
		}
	})
	plugintest.Eventually(t, "job 1 hangs", hangs)
	time.Sleep(10 * time.Second) // so that the second event's alarm comes that much later
	os.Remove(once)
	wg.Go(func() { must(t, h, hostapi.EventBegin, "2.srv") })
	plugintest.Eventually(t, "job 2 hangs", hangs)
	wg.Wait()
}

// After five crashes the hook is left alone and events fail at once.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("h", "misbehave", `mode = "exit"`, "fail_action=offline_vnodes")
	h := n.open()
	var v *Verdict
	for i := range 3 { // two crashes each
		v = judge(t, h, hostapi.EventBegin, fmt.Sprintf("%d.srv", i+1))
	}
	if v.Kind != hostapi.KindNode ||
		!strings.Contains(v.Message, "hook h: disabled after 5 crashes in 5m; next try in 30s") {
		t.Fatalf("third event: %s %q", v.Kind, v.Message)
	}
	began := time.Now()
	v = judge(t, h, hostapi.EventBegin, "4.srv")
	if took := time.Since(began); took > 15*time.Second || len(v.FailAction) == 0 {
		t.Errorf("took %v, fail_action %v", took, v.FailAction)
	}
	list, err := h.Hooks()
	if err != nil || list[0].State != "broken" || !strings.Contains(list[0].Error, "disabled after 5 crashes") {
		t.Errorf("status %+v, %v", list, err)
	}
}

// What a program has started ends with it, however the program ends.
func TestSessionEndsWithTheProgram(t *testing.T) {
	for name, end := range map[string]func(h *Host, pid int) error{
		"closed": func(h *Host, _ int) error { return h.Close(t.Context()) },
		"killed": func(_ *Host, pid int) error { return unix.Kill(pid, unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "child", "execjob_begin",
				filepath.Join(n.dir, "child")))
			h := n.open()
			must(t, h, hostapi.EventBegin, "1.srv")
			b, err := os.ReadFile(filepath.Join(n.dir, "child"))
			if err != nil {
				t.Fatal(err)
			}
			child := filepath.Join("/proc", string(b))
			if !runs(child) {
				t.Fatalf("process %s does not run", b)
			}
			if err := end(h, hookPID(t, h, "a")); err != nil {
				t.Fatal(err)
			}
			plugintest.Eventually(t, "the hook's child is gone", func() bool { return !runs(child) })
		})
	}
}

// A program that is stopped answers nothing: the alarm kills it, and so does Close.
func TestStoppedProgram(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("a", "misbehave", "", "alarm=10")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	first := stop(t, h, "a")
	if v := judge(t, h, hostapi.EventLaunch, "1.srv"); v.Kind != hostapi.KindTimeout {
		t.Errorf("launch: %+v", v)
	}
	plugintest.Eventually(t, "killed", func() bool { return !runs(fmt.Sprintf("/proc/%d", first)) })
	must(t, h, hostapi.EventLaunch, "1.srv")
	stop(t, h, "a")
	began := time.Now()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// stop stops a hook's program and waits until it stands still.
func stop(t *testing.T, h *Host, name string) int {
	t.Helper()
	pid := hookPID(t, h, name)
	if pid <= 1 {
		t.Fatalf("hook %s: no program runs", name)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	plugintest.Eventually(t, "stopped", func() bool { return state(fmt.Sprintf("/proc/%d", pid)) == "T" })
	return pid
}

// runs reports whether /proc/PID is of a process that is not a zombie, whose parent may not have
// looked yet.
func runs(dir string) bool {
	s := state(dir)
	return s != "" && s != "Z" && s != "X"
}

// state returns the process's state letter, "" when it is gone.
func state(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return ""
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))[1]
}

// A long line, a print to standard output: nothing blocks, nothing is unbounded, levels are kept.
func TestOutputOfAHookIsBoundedAndBlocksNothing(t *testing.T) {
	for _, mode := range []string{"long-line", "print", "log"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.hook("h", "misbehave", fmt.Sprintf("mode = %q\nvalue = %q", mode, "v"))
			h := n.open()
			must(t, h, hostapi.EventBegin, "1.srv")
			must(t, h, hostapi.EventEnd, "1.srv")
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			switch mode {
			case "long-line":
				entry := n.log.Find("xxxx")
				if entry == nil || entry["length"] != float64(100_000) || len(entry["msg"].(string)) > 4<<10+3 {
					t.Errorf("long line logged as %.200v", entry)
				}
			case "print":
				for _, line := range []string{"printed on stdout", "printed on stderr",
					"printed without a line feed", `{"@level":"info","@message":7}`} {
					if n.log.Find(line) == nil {
						t.Errorf("%s: the hook printed it, and it is not in the log", line)
					}
				}
			case "log":
				for _, level := range []string{"debug", "info", "warning", "error"} {
					entry := n.log.Find("a line of level " + level)
					if entry == nil || entry["level"] != level || entry["value"] != "v" || entry["hook"] != "h" {
						t.Errorf("level %s: logged as %v", level, entry)
					}
				}
			}
		})
	}
}

// Nothing of a host is left after Close.
func TestCloseLeavesNothing(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "")
	n.hook("b", "print-early", "")
	n.hook("c", "misbehave", `mode = "exit"`, "event=execjob_launch")
	h := n.open()
	judge(t, h, hostapi.EventBegin, "1.srv")
	judge(t, h, hostapi.EventLaunch, "1.srv")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(n.dir, "run", "*")); err != nil || len(left) > 0 {
		t.Errorf("left in the runtime directory: %v, %v", left, err)
	}
	_, err := h.Handle(t.Context(), requestOf(hostapi.EventBegin, "2.srv"))
	if hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("begin after Close: %v, want a busy error", err)
	}
}
