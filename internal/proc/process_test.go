package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// captured on Linux 6.18, the second with prctl(PR_SET_NAME, ") R 1 1 (\n)").
const (
	statSleep = "4242 (sleep) S 4200 4242 4200 34816 4242 4194304 113 0 1 0 0 0 0 0 20 0 1 0 158213 6221824 494 " +
		"18446744073709551615 94319871664128 94319871681665 140731262712304 0 0 0 0 0 0 1 0 0 17 1 0 0 0 0 0 " +
		"94319871694896 94319871696128 94320391708672 140731262717480 140731262717489 " +
		"140731262717489 140731262721001 0\n"
	statHostile = "4243 () R 1 1 (\n)) S 4200 4242 4200 34816 4242 4194304 113 0 1 0 0 0 0 0 20 0 1 0 158214 6221824 " +
		"494 18446744073709551615 94319871664128 94319871681665 140731262712304 0 0 0 0 0 0 1 0 0 17 1 0 0 0 0 0 " +
		"94319871694896 94319871696128 94320391708672 140731262717480 140731262717489 " +
		"140731262717489 140731262721001 0\n"
)

func TestParseStat(t *testing.T) {
	page := int64(os.Getpagesize())
	tests := []struct {
		name string
		text string
		want Process
		bad  bool
	}{
		{name: "plain", text: statSleep, want: Process{PID: 4242, StartTime: 158213, PPID: 4200, PGRP: 4242,
			Session: 4200, TTY: 34816, Comm: "sleep", State: 'S', RSS: 494 * page, Threads: 1}},
		{name: "comm with parentheses and newline", text: statHostile,
			want: Process{PID: 4243, StartTime: 158214, PPID: 4200, PGRP: 4242, Session: 4200, TTY: 34816,
				Comm: ") R 1 1 (\n)", State: 'S', RSS: 494 * page, Threads: 1}},
		{name: "comm empty", text: strings.Replace(statSleep, "sleep", "", 1),
			want: Process{PID: 4242, StartTime: 158213, PPID: 4200, PGRP: 4242, Session: 4200, TTY: 34816, State: 'S',
				RSS: 494 * page, Threads: 1}},
		{name: "busy",
			text: "7 (a) R 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 4711 1000000 512 1844 1 1\n",
			want: Process{PID: 7, StartTime: 4711, PPID: 1, PGRP: 7, Session: 7, Comm: "a) R 1 2", State: 'S',
				CPU: 3 * time.Second, RSS: 512 * page, Threads: 3}},
		{name: "empty", text: "", bad: true},
		{name: "no command", text: "4242 S 1 1 1", bad: true},
		{name: "parentheses the wrong way", text: "4242 )sleep( S 1 1 1", bad: true},
		{name: "cut short", text: statSleep[:60], bad: true},
		{name: "no pid", text: statSleep[4:], bad: true},
		{name: "state of two letters", text: strings.Replace(statSleep, ") S", ") SS", 1), bad: true},
		{name: "session no number", text: strings.Replace(statSleep, "4242 4200 34816", "4242 x 34816", 1), bad: true},
		{name: "start time negative", text: strings.Replace(statSleep, "158213", "-158213", 1), bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.text))
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %v", err, tt.bad)
			}
			must.Equal(t, "process", tt.want, got)
		})
	}
}

func TestParseStatus(t *testing.T) {
	tests := []struct {
		name string
		text string
		want Process
		bad  bool
	}{
		{name: "plain", text: "Name:\tsleep\nUmask:\t0022\nTgid:\t4711\n" +
			"Uid:\t1000\t0\t0\t0\nGid:\t100\t100\t100\t100\nFDSize:\t64\n",
			want: Process{Leader: 4711, UID: 1000, EUID: 0, GID: 100}},
		{name: "the largest uid", text: "Uid:\t4294967294\t4294967294\t4294967294\t4294967294\nGid:\t1\t1\t1\t1\n",
			want: Process{UID: 4294967294, EUID: 4294967294, GID: 1}},
		{name: "name like an owner", text: "Name:\tUid:\\t0\nUid:\t7\t7\t7\t7\nGid:\t7\t7\t7\t7\n",
			want: Process{UID: 7, EUID: 7, GID: 7}},
		{name: "no owner", text: "Name:\tsleep\n", bad: true},
		{name: "no group", text: "Uid:\t7\t7\t7\t7\n", bad: true},
		{name: "one uid only", text: "Uid:\t7\nGid:\t7\t7\n", bad: true},
		{name: "no number", text: "Uid:\tx\tx\nGid:\t7\t7\n", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got Process
			if err := got.parseStatus([]byte(tt.text)); (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %v", err, tt.bad)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" && !tt.bad {
				t.Errorf("owner (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	for _, text := range []string{statSleep, statHostile, "1 (a) b", "1 ()", ")(", ""} {
		f.Add(text, text)
	}
	tail := statSleep[strings.LastIndexByte(statSleep, ')'):]
	f.Fuzz(func(t *testing.T, text, comm string) {
		if p, err := parseStat([]byte(text)); err != nil && p != (Process{}) {
			t.Errorf("parseStat(%q) = %v with error %v", text, p, err)
		}
		// Whatever a process calls itself, its other fields are the kernel's.
		p, err := parseStat([]byte("4242 (" + comm + tail))
		if err != nil || p.Comm != comm || p.PID != 4242 || p.Session != 4200 || p.StartTime != 158213 {
			t.Errorf("comm %q: %+v, %v", comm, p, err)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add("Name:\tsleep\nUid:\t1000\t0\t0\t0\nGid:\t100\t100\t100\t100\n")
	f.Add("Uid:\nGid:\n")
	f.Fuzz(func(t *testing.T, text string) {
		var p Process
		if err := p.parseStatus([]byte(text)); err == nil && (p.UID < 0 || p.EUID < 0 || p.GID < 0) {
			t.Errorf("parseStatus(%q) = %+v", text, p)
		}
	})
}

func TestReadKnowsTheCaller(t *testing.T) {
	procfs := procFS(t)
	p, err := Read(procfs, os.Getpid())
	must.NoError(t, err)
	if p.PID != os.Getpid() || p.PPID != os.Getppid() || p.UID != os.Getuid() || p.EUID != os.Geteuid() ||
		p.GID != os.Getgid() || p.StartTime == 0 || p.Dead() {
		t.Errorf("own process: %+v", p)
	}
	// Pids end at 4194304 (PID_MAX_LIMIT).
	if _, err := Read(procfs, 4194305); !errors.Is(err, ErrGone) {
		t.Errorf("Read of no process = %v, want ErrGone", err)
	}
}

func TestReadShowsWhatTheProcessUses(t *testing.T) {
	p, err := Read(procFS(t), os.Getpid())
	if err != nil || p.RSS <= 0 || p.Threads <= 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestIdentityIsPIDAndStartTime(t *testing.T) {
	procfs := procFS(t)
	self, err := Self(procfs)
	must.NoError(t, err)
	id, err := identify(procfs, strconv.Itoa(os.Getpid()))
	if err != nil || id != self || len(id.BootID) != 36 {
		t.Fatalf("identity %+v, %v; Self = %+v", id, err, self)
	}

	cmd := exec.Command("/bin/sleep", "60")
	must.NoError(t, cmd.Start())
	child, err := identify(procfs, strconv.Itoa(cmd.Process.Pid))
	must.NoError(t, err)
	otherTime, otherBoot, noBoot := child, child, child
	otherTime.StartTime++
	otherBoot.BootID = strings.Repeat("0", 36)
	noBoot.BootID = ""
	alive := func(when string, want ...bool) {
		t.Helper()
		for i, id := range []struct {
			name string
			got  bool
		}{
			{"itself", Alive(procfs, child)}, {"without boot id", Alive(procfs, noBoot)},
			{"another start time", Alive(procfs, otherTime)}, {"another boot", Alive(procfs, otherBoot)},
		} {
			if id.got != want[i] {
				t.Errorf("%s: Alive of %s = %v", when, id.name, id.got)
			}
		}
	}
	alive("running", true, true, false, false)
	h, err := Open(procfs, child)
	must.NoError(t, err)
	defer h.Close()
	must.NoError(t, cmd.Process.Kill())
	must.NoError(t, h.Wait(t.Context()))
	alive("zombie", false, false, false, false)
	if p, err := Read(procfs, child.PID); err != nil || !p.Dead() {
		t.Errorf("Read of a zombie = %+v, %v", p, err)
	}
	cmd.Wait()
	alive("reaped", false, false, false, false)
}

func TestSessionPIDs(t *testing.T) {
	for name, own := range map[string]bool{"by getsid": true, "by files": false} {
		t.Run(name, func(t *testing.T) {
			sessions := NewSessions(procFS(t))
			if !own {
				sessions.known = true
			}
			testSessionPIDs(t, sessions)
		})
	}
}

func testSessionPIDs(t *testing.T, sessions *Sessions) {
	procfs := sessions.procfs
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	// The leader, a member that calls itself something hostile, and one that leaves the session.
	script := `printf ') S 1 1 1' > /proc/$$/comm
		sleep 60 &
		setsid sh -c 'echo $$; exec sleep 60' &
		wait`
	leader, err := Start(&exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Stdout: w})
	w.Close()
	must.NoError(t, err)
	var left int
	if _, err := fmt.Fscan(r, &left); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		leader.Signal(unix.SIGKILL)
		leader.Wait(context.Background())
		unix.Kill(left, unix.SIGKILL)
	})
	want := []string{") S 1 1 1", "sleep"}
	// No event tells when the shell's child has become sleep.
	must.Eventually(t, fmt.Sprintf("the members are %q", want), func() bool {
		pids, err := sessions.PIDs(leader.PID)
		must.NoError(t, err)
		if !slices.IsSorted(pids) {
			t.Errorf("members %v", pids)
		}
		var got []string
		for _, pid := range pids {
			m, err := Read(procfs, pid)
			if errors.Is(err, ErrGone) || err == nil && (m.Dead() || m.Session != leader.PID) {
				continue
			}
			if err != nil || m.UID != os.Getuid() {
				t.Errorf("member %+v, %v", m, err)
			}
			got = append(got, m.Comm)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
	if none, err := sessions.PIDs(4194305); err != nil || len(none) != 0 {
		t.Errorf("no session: %v, %v", none, err)
	}
}

// A daemon without a descriptor to spare must not take what runs for dead.
func TestAProcessThatCannotBeReadCountsAsAlive(t *testing.T) {
	k := kernfstest.NewV2()
	procfs, pid := k.Roots().Proc, k.Spawn()
	id, err := identify(procfs, strconv.Itoa(pid))
	must.NoError(t, err)
	for _, file := range []string{"stat", "boot_id"} {
		heal := k.Fail("open", "/"+file, unix.EMFILE)
		if !Alive(procfs, id) {
			t.Errorf("dead without %s", file)
		}
		if err := Check(procfs, id); !errors.Is(err, unix.EMFILE) {
			t.Errorf("without %s: %v", file, err)
		}
		heal()
	}
	k.Exit(pid)
	if Alive(procfs, id) {
		t.Error("it lives after its end")
	}
}
