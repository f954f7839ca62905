package openpbs_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/openpbs"
)

// many runs events together, each with its own configuration, and returns what each left, by its
// name.
type many struct {
	m      *hookMoM
	events []string
	lines  bytes.Buffer
}

func (s *many) add(name, input, config string) {
	s.m.t.Helper()
	stem := s.m.at("hooks/tmp/" + name)
	must.NoError(s.m.t, os.WriteFile(stem+".in", []byte(input), 0o644))
	s.events = append(s.events, name)
	fmt.Fprintf(&s.lines, "%s.in\t%s.out\t%s.err\t%s\t%g\n", stem, stem, stem, config, alarmOf(input).Seconds())
}

func (s *many) run(children int, attr *syscall.SysProcAttr) map[string]hookResult {
	t := s.m.t
	t.Helper()
	cmd := exec.Command(s.m.python, filepath.Join(modules(t), "many.py"), "--hook", "-i", "/proc/self/fd/9", "-n",
		fmt.Sprint(children), shimPath(t))
	cmd.Env, cmd.Stdin, cmd.SysProcAttr = append([]string{"PATH=/bin:/usr/bin"}, s.m.env...), &s.lines, attr
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("many.py: %v\n%s", err, said.String())
	}
	results := map[string]hookResult{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		name := strings.TrimSuffix(filepath.Base(f[0]), ".in")
		stem := strings.TrimSuffix(f[0], ".in")
		b, _ := os.ReadFile(stem + ".out")
		e, _ := os.ReadFile(stem + ".err")
		took, _ := time.ParseDuration(f[2] + "s")
		r := hookResult{out: string(b), said: string(e), took: took,
			log: strings.Split(strings.TrimSpace(string(e)), "\n")}
		if f[1] != "0" {
			t.Errorf("%s ended with %s after %v:\n%s\n%s", name, f[1], took, r.said, r.out)
		} else if r.accepted() == r.rejected() || strings.Contains(r.said, "Traceback") {
			t.Errorf("%s: neither accepted nor rejected, or an exception:\n%s\n%s", name, r.out, r.said)
		}
		results[name] = r
	}
	if len(results) != len(s.events) {
		t.Fatalf("%d of %d events ran", len(results), len(s.events))
	}
	return results
}

// checkGivenUp holds what is left of an event against what is configured for a daemon that does not
// answer.
func checkGivenUp(t *testing.T, name, event string, rejects bool, r hookResult) {
	t.Helper()
	if r.accepted() == rejects {
		t.Errorf("%s: accepted is %t\n%s%s", name, r.accepted(), r.out, r.said)
	}
	word := map[bool]string{true: "rejected", false: "accepted"}[rejects]
	if len(r.log) != 1 || !strings.HasPrefix(r.log[0], "error: hookhost: "+event) ||
		!strings.Contains(r.log[0], ": "+word+": ") {
		t.Errorf("%s: want one line of log, have %q", name, r.log)
	}
	if rejects && "error: "+r.message() != r.log[0] {
		t.Errorf("%s: the message is %q, the log %q", name, r.message(), r.log[0])
	}
	if strings.Contains(r.out, "_rerun=True") != (rejects && rerunEvents[event]) {
		t.Errorf("%s: rerun is wrong:\n%s", name, r.out)
	}
}

// Whatever is wrong with the daemon: each event gets its outcome, in time, with one line that says
// why.
func TestShimWithoutDaemon(t *testing.T) {
	hung := patience(t)
	half := "HTTP/1.0 200 OK\r\nContent-Type: " + changesType + "\r\nContent-Length: 100\r\n\r\nhookhost/1\x00acc"
	whole := "HTTP/1.0 200 OK\r\nContent-Type: " + changesType + "\r\n\r\n" + changes("accept")
	raw := func(text string) func(net.Conn, fakeRequest) {
		return func(c net.Conn, _ fakeRequest) { io.WriteString(c, text) }
	}
	stay := func(c net.Conn) { io.Copy(io.Discard, c) }
	for _, tt := range []struct {
		name    string
		answer  func(net.Conn, fakeRequest)
		unread  bool
		prepare func(t *testing.T, socket string)
		cause   string
		time    bool // it lasts
		last    bool // it lasts at the end of a job
	}{
		{name: "missing", last: true, cause: "No such file or directory"},
		{name: "stopped", prepare: func(t *testing.T, socket string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
			must.NoError(t, err)
			l.SetUnlinkOnClose(false)
			l.Close()
		}, cause: "Connection refused", last: true},
		{name: "file", prepare: func(t *testing.T, socket string) { os.WriteFile(socket, nil, 0o600) },
			cause: "Connection refused"},
		{name: "directory", prepare: func(t *testing.T, socket string) { os.Mkdir(socket, 0o755) },
			cause: "Connection refused"},
		{name: "below a file", prepare: func(t *testing.T, socket string) {
			os.WriteFile(filepath.Dir(socket), nil, 0o600)
		}, cause: "Not a directory"},
		{name: "silent", answer: func(c net.Conn, _ fakeRequest) { stay(c) }, cause: "no answer in ", time: true},
		{name: "deaf", last: true, answer: func(c net.Conn, r fakeRequest) { <-r.over }, unread: true,
			cause: "no sign of life in 5 s"},
		{name: "silent from the start", last: true, answer: func(c net.Conn, r fakeRequest) { <-r.over }, unread: true,
			cause: "no sign of life in 5 s"},
		{name: "killed behind its sign", last: true, answer: func(c net.Conn, _ fakeRequest) {},
			cause: "no answer: the daemon has hung up"},
		{name: "half", answer: func(c net.Conn, _ fakeRequest) { io.WriteString(c, half); stay(c) },
			cause: "no answer in ", time: true},
		{name: "drip", answer: func(c net.Conn, _ fakeRequest) {
			for _, b := range []byte(whole + strings.Repeat(" ", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, cause: "no answer in ", time: true},
		{name: "reset", last: true, answer: func(c net.Conn, _ fakeRequest) {}, unread: true, cause: "no answer: "},
		{name: "killed while it spoke", last: true, answer: raw(half), cause: "no whole answer in HTTP"},
		{name: "nonsense", answer: raw("\x00\xff\xfe\nwhat?\n"), cause: "no whole answer in HTTP"},
		{name: "web page", answer: func(c net.Conn, _ fakeRequest) { respond(c, 200, "text/html", "<html>") },
			cause: "no list of changes, but text/html"},
		{name: "other version", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 200, changesType, "hookhost/2\x00accept\x00end\x00")
		}, cause: "no whole list"},
		{name: "cut short", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 200, changesType, "hookhost/1\x00accept\x00")
		}, cause: "no outcome"},
		{name: "no outcome", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 200, changesType, changes("log", "debug", "x"))
		}, cause: "no outcome"},
		{name: "two outcomes", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 200, changesType, changes("accept", "accept"))
		}, cause: "no outcome"},
		{name: "unknown verb", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 200, changesType, changes("explode", "accept"))
		}, cause: "broken change: explode"},
		{name: "asks again", answer: func(c net.Conn, _ fakeRequest) { respond(c, 200, changesType, changes("ask")) },
			cause: "the daemon asks again"},
		{name: "400", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 400, "application/json",
				`{"error":"input: no \"event\" in C:\\n of \u003c1\u003e","kind":"user"}`)
		}, cause: `the daemon answers 400 bad request: input: no "event" in C:\n of <1>`},
		{name: "503", answer: func(c net.Conn, _ fakeRequest) {
			respond(c, 503, "application/json", `{"error":"stopping"}`)
		}, cause: "the daemon answers 503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lines := []string{"offline = false", "wait = '1s'"}
			m := newHookMoM(t, lines...)
			alarm := 60
			if tt.time {
				alarm = hung
			}
			if tt.name == "below a file" {
				m.socket = m.at("file/s")
				m.configure(lines...)
			}
			if tt.prepare != nil {
				tt.prepare(t, m.socket)
			}
			if tt.answer != nil {
				startDaemon(t, m.socket, !tt.unread, tt.answer)
			}
			s := &many{m: m}
			for _, e := range hookEvents {
				input := withAlarm(anEvent(t, e.name), alarm)
				if isLast(e.name) {
					input = withAlarm(input, hung)
				}
				if tt.name == "deaf" { // and no buffer takes so much
					input = "pbs.event().job.comment=" + strings.Repeat("x", 4<<20) + "\n" + input
				}
				s.add(e.name, input, m.at("hooks/shim.CF"))
			}
			for event, r := range s.run(len(hookEvents), nil) {
				rejects := false
				for _, e := range hookEvents {
					rejects = rejects || e.name == event && e.rejects
				}
				checkGivenUp(t, event, event, rejects, r)
				lasts := tt.time || isLast(event) && tt.last
				over := isLast(event) && strings.Contains(r.said, "no answer in ")
				if !strings.Contains(r.said, tt.cause) && !over {
					t.Errorf("%s: want %q in %q", event, tt.cause, r.said)
				}
				if !tt.time && r.took > 30*time.Second {
					t.Errorf("%s: given up after %v", event, r.took)
				}
				if lasts && r.took < time.Duration(hung-1)*time.Second-500*time.Millisecond {
					t.Errorf("%s: given up after %v of %d s", event, r.took, hung)
				}
			}
		})
	}
}

// isLast reports whether nothing comes after an event of the mother superior's. A daemon that
// restarts is waited for until the alarm then.
func isLast(event string) bool { return event == "execjob_epilogue" || event == "execjob_end" }

// The daemon alone knows what a job has used. The record of a job whose epilogue was not
// answered says so, beside what was told before. A sister's MoM would hang with its epilogue.
func TestShimSaysThatUsageIsIncomplete(t *testing.T) {
	t.Parallel()
	epilogue := withAlarm(anEvent(t, "execjob_epilogue"), patience(t))
	with := func(diag string) string {
		return strings.Replace(epilogue, "resources_used[diag_messages]={}", "resources_used[diag_messages]="+diag, 1)
	}
	const says = "resources_used is incomplete: "
	for _, tt := range []struct {
		name, input, known, want string
		stopped                  bool // the daemon, which does not run otherwise
	}{
		{"nothing was told", epilogue, "diag_messages type=string", `{"pbshost":"` + says, false},
		{"the daemon is stopped", epilogue, "diag_messages type=string", `{"pbshost":"` + says, true},
		{"something was told", with(`{"other":"x","pbshost":"Killed"}`), "a\ndiag_messages type=string",
			`{"other":"x","pbshost":"Killed ` + says, false},
		{"nonsense was told", with(`[1]`), "diag_messages type=string", `{"pbshost":"` + says, false},
		{"the server does not know it", epilogue, "diag_messages_x type=string", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newHookMoM(t)
			must.NoError(t, os.WriteFile(m.at("hooks/resourcedef"), []byte(tt.known+"\n"), 0o600))
			if tt.stopped {
				startDaemon(t, m.socket, false, func(_ net.Conn, r fakeRequest) { <-r.over })
			}
			r := m.run(tt.input)
			line := "pbs.event().job.resources_used[diag_messages,string]=" + tt.want
			if !r.accepted() || len(r.log) != 1 || tt.want != "" && !strings.Contains(r.out, line) ||
				strings.Contains(r.out, "diag_messages,") != (tt.want != "") {
				t.Errorf("%s%s", r.out, r.said)
			}
		})
	}
	t.Run("sister", func(t *testing.T) {
		t.Parallel()
		m := newHookMoM(t)
		sister := strings.Replace(anEvent(t, "execjob_epilogue"), "pbs.event().job._msmom=True\n", "", 1)
		if r := m.run(withAlarm(sister, 60)); !r.accepted() || r.took > 30*time.Second {
			t.Errorf("after %v: %s%s", r.took, r.out, r.said)
		}
	})
}

// With unconfined, a daemon that does not answer holds nothing up.
func TestShimLetsJobsRunUnconfined(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	config := m.at("hooks/unconfined")
	text := fmt.Sprintf("[shim]\nsocket = '%s'\n wait=\"0s\"\nunconfined = true # so\n# a comment\n", m.socket)
	must.NoError(t, os.WriteFile(config, []byte(text), 0o644))
	s := &many{m: m}
	for _, e := range hookEvents {
		s.add(e.name, withAlarm(anEvent(t, e.name), 9), config)
	}
	results := s.run(4, nil)
	for _, e := range hookEvents {
		checkGivenUp(t, e.name, e.name, false, results[e.name])
		if r := results[e.name]; strings.Contains(r.out, "offline") {
			t.Errorf("%s takes vnodes offline: %s", e.name, r.out)
		}
	}
}

// A job's user may have written what the daemon cannot read. No setting lets such a job run without
// the daemon, as one does where none answers.
func TestShimRejectsWhatTheDaemonCannotRead(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 413} {
		m := newHookMoM(t)
		startDaemon(t, m.socket, true, func(c net.Conn, _ fakeRequest) {
			respond(c, status, "application/json",
				`{"error":"input of a hook: a line that pbs_mom did not write","kind":"user"}`)
		})
		s := &many{m: m}
		for _, e := range hookEvents {
			config := m.at("hooks/" + e.name)
			text := fmt.Sprintf("[shim]\nsocket = '%s'\nunconfined = true\noffline = false\n", m.socket)
			must.NoError(t, os.WriteFile(config, []byte(text), 0o644))
			s.add(e.name, anEvent(t, e.name), config)
		}
		results := s.run(4, nil)
		for _, e := range hookEvents {
			checkGivenUp(t, e.name, e.name, e.rejects, results[e.name])
		}
	}
}

// A configuration that is wrong is told of, and does not count.
func TestShimWrongSettings(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t, `unconfined = "maybe"`, `unconfined = "true"`, `execjob_end = "reject"`, `wait = "soon"`,
		`wait = "1m"`, `offline = "yes"`, "socket =", "socket = true", "\xff", "= 3")
	r := m.run(withAlarm(anEvent(t, "execjob_begin"), 3))
	if r.accepted() || strings.Count(r.said, "warning: hookhost: "+m.at("hooks/shim.CF")+": not understood: ") != 10 {
		t.Errorf("%s%s", r.out, r.said)
	}
	os.Remove(m.at("hooks/shim.CF"))
	if r := m.run(withAlarm(anEvent(t, "execjob_end"), 3)); !strings.Contains(r.said,
		"/run/hookhost/hookhost.sock: ") && !r.accepted() {
		t.Errorf("without a configuration: %s%s", r.out, r.said)
	}
}

// A daemon that restarts is waited for.
func TestShimWaitsForDaemon(t *testing.T) {
	t.Parallel()
	for _, stale := range []bool{false, true} {
		event, wait := "execjob_begin", "59s"
		if stale { // longer than a begin
			event, wait = "execjob_epilogue", "1s"
		}
		t.Run(fmt.Sprintf("stale=%t", stale), func(t *testing.T) {
			t.Parallel()
			m := newHookMoM(t, "wait = '"+wait+"'")
			if stale {
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.socket, Net: "unix"})
				must.NoError(t, err)
				l.SetUnlinkOnClose(false)
				l.Close()
			}
			var d *fakeDaemon
			started := make(chan struct{})
			go func() {
				time.Sleep(1500 * time.Millisecond)
				os.Remove(m.socket)
				d = answering(t, m, "accept")
				close(started)
			}()
			r := m.run(withAlarm(anEvent(t, event), 120))
			<-started
			if !r.accepted() || len(r.log) != 0 {
				t.Fatalf("%s%s", r.out, r.said)
			}
			// The daemon is told how much of the alarm is left.
			if left := alarmOf(d.requests()[0].body); left < 20*time.Second || left >= 120*time.Second {
				t.Errorf("alarm of %v", left)
			}
		})
	}
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		m := newHookMoM(t, `wait = "1s"`, "offline = false")
		r := m.run(withAlarm(anEvent(t, "execjob_begin"), 60))
		if r.accepted() || r.took < time.Second || len(r.log) != 1 {
			t.Errorf("after %v:\n%s%s", r.took, r.out, r.said)
		}
	})
}

// A socket that may not be used is as none.
func TestShimWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	m := newHookMoM(t, "offline = false")
	for _, dir := range []string{"hooks/tmp", "logs"} {
		os.Chmod(m.at(dir), 0o777)
	}
	nobody := &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	can := exec.Command(m.python, "-c", "open("+fmt.Sprintf("%q", shimPath(t))+")")
	can.SysProcAttr, can.Dir = nobody, "/"
	if can.Run() != nil {
		t.Skip("nobody can run python3 here, or read the shim")
	}
	answering(t, m, "accept")
	must.NoError(t, os.Chmod(m.socket, 0o600))
	s := &many{m: m}
	for _, e := range hookEvents {
		s.add(e.name, anEvent(t, e.name), m.at("hooks/shim.CF"))
	}
	for _, e := range hookEvents {
		os.Chmod(m.at("hooks/tmp/"+e.name+".in"), 0o644)
	}
	results := s.run(4, nobody)
	for _, e := range hookEvents {
		checkGivenUp(t, e.name, e.name, e.rejects, results[e.name])
		if r := results[e.name]; !strings.Contains(r.said, "Permission denied") {
			t.Errorf("%s: %s", e.name, r.said)
		}
	}
}

// An answer that pbs_python's stand-in has in hand is not asked for again.
func TestShimAfterTheStandIn(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t, "offline = false")
	read, write, err := os.Pipe()
	must.NoError(t, err)
	defer read.Close()
	defer write.Close()
	for _, tt := range []struct{ reply, want string }{
		{changes("vnode", "pbshost", "resources_available", "hpmem", "size", "4gb", "accept"),
			`vnode_list["pbshost"].resources_available[hpmem,size]=4gb`},
		{"hookhost/1\x00acc", "rejected: the answer is no whole list of changes"},
	} {
		reply := m.at("reply")
		must.NoError(t, os.WriteFile(reply, []byte(tt.reply), 0o600))
		m.env = []string{"HOOKHOST_REPLY_FD=9"}
		r := m.scriptWithFile(shimPath(t), anEvent(t, "execjob_begin"), reply)
		if !strings.Contains(r.out, tt.want) {
			t.Errorf("%s%s", r.out, r.said)
		}
	}
}

// scriptWithFile runs a hook that inherits a file as descriptor 9.
func (m *hookMoM) scriptWithFile(script, input, file string) hookResult {
	m.t.Helper()
	wrapper := m.at("wrapper")
	text := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" 9<%s\n", m.python, file)
	writeScript(m.t, wrapper, text)
	before := m.python
	m.python = wrapper
	defer func() { m.python = before }()
	return m.script(script, input)
}

// The server's facts about the vnodes stay: the administrator's comments, and the vnodes that he
// took offline himself.
func TestShimOffline(t *testing.T) {
	t.Parallel()
	const text = "Hook hookhost: the daemon does not answer: systemctl start hookhost"
	server := func(m *hookMoM, lines ...string) {
		m.t.Helper()
		must.NoError(m.t, os.WriteFile(m.at("server"), []byte(strings.Join(lines, "\n")), 0o600))
		m.env = []string{"PBS_STANDIN_SERVER=" + m.at("server")}
	}
	begin, periodic := anEvent(t, "execjob_begin"), anEvent(t, "exechost_periodic")
	vnode := func(rest string) string { return `pbs.event().vnode_list["pbshost"].` + rest + "\n" }
	mark := func(m *hookMoM) bool { _, err := os.Stat(m.at("hooks/shim.offline")); return err == nil }

	for _, tt := range []struct {
		name, server, settings string
		event                  string
		want                   []string
		not                    string
	}{
		{name: "comment of the administrator's", server: "pbshost\tfree\tdisk is slow", event: begin,
			want: []string{vnode("state=offline_by_mom"), vnode("comment=disk is slow " + text),
				"; vnode pbshost is offline\n"}},
		{name: "no comment", server: "pbshost\tdown,job-busy\t", event: begin,
			want: []string{vnode("state=offline_by_mom"), vnode("comment=" + text)}},
		{name: "brought back by hand", server: "pbshost\tfree\t" + text, event: begin,
			want: []string{vnode("state=offline_by_mom")}, not: "comment="},
		{name: "offline by the administrator", server: "pbshost\toffline\tmine", event: begin,
			want: []string{"; vnode pbshost is offline already\n", vnode("comment=mine " + text)}, not: "state="},
		{name: "server cannot be reached", server: "refuse", event: begin,
			want: []string{vnode("state=offline"), "could not be asked"}, not: "comment="},
		{name: "server hangs", server: "hang", event: withAlarm(begin, patience(t)+8),
			want: []string{vnode("state=offline"), "could not be asked"}, not: "comment="},
		{name: "another host's vnode", server: "pbshost\tfree\t\npbshost2\tfree\t",
			event: withVnode(begin, "pbshost2", "pbshost2"),
			want:  []string{vnode("state=offline_by_mom"), vnode("comment=" + text), "; vnode pbshost is offline\n"},
			not:   "pbshost2"},
		{name: "a vnode of the site's", server: "pbshost\tfree\t\nblade\tfree\t\nrack\tfree\t",
			event: withVnode(withVnode(begin, "blade", "pbshost.cluster"), "rack", "pbshost2"),
			want: []string{"; vnode blade is offline; vnode pbshost is offline\n",
				`pbs.event().vnode_list["blade"].state=offline_by_mom` + "\n"}, not: `"rack"`},
		{name: "switched off", server: "pbshost\tfree\t", settings: "offline = false", event: begin, not: "vnode_list"},
		{name: "accepted", server: "pbshost\tfree\t", settings: `unconfined = true`, event: begin,
			not: "vnode_list"},
		{name: "startup", server: "pbshost\tfree\t", event: anEvent(t, "exechost_startup"), not: "vnode_list"},
		{name: "another event", server: "pbshost\tfree\t", event: anEvent(t, "execjob_launch"), not: "vnode_list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newHookMoM(t, tt.settings)
			server(m, tt.server)
			r := m.run(tt.event)
			for _, want := range tt.want {
				if !strings.Contains(r.out, want) {
					t.Errorf("no %q in:\n%s%s", want, r.out, r.said)
				}
			}
			if tt.not != "" && strings.Contains(r.out, tt.not) {
				t.Errorf("%q in:\n%s", tt.not, r.out)
			}
			if len(r.log) != 1 {
				t.Errorf("%d lines of log: %q", len(r.log), r.log)
			}
			if mark(m) != (len(tt.want) > 0) {
				t.Errorf("mark is %t", mark(m))
			}
		})
	}

	const clear, cgroup = "offline_vnodes=0", "Hook cgroup: Unable to clean up one or more cgroups"
	two := withVnode(periodic, "pbshost[1]", "pbshost[1]")
	told := func(state string) string { // the periodic after an answer
		return strings.Replace(periodic, "\npbs.event().vnode_list",
			"\n"+vnode("resources_available[hookhost]="+state)+"pbs.event().vnode_list", 1)
	}
	degraded := vnode("resources_available[hookhost,string]=degraded")
	for _, tt := range []struct {
		name, server string
		silent       bool // nobody answers
		answer       []string
		event        string
		want         []string // all lines about vnodes, in this order
		stays        bool
		log          string
	}{
		{name: "back", server: "pbshost\toffline\tdisk is slow " + text,
			want: []string{vnode(clear), vnode("comment=disk is slow")}},
		{name: "back with no comment", server: "pbshost\toffline,down\t" + text,
			want: []string{vnode(clear), vnode("comment=")}},
		{name: "brought back by hand", server: "pbshost\tfree\t" + text,
			want: []string{vnode(clear), vnode("comment=")}},
		{name: "the server was restarted", server: "pbshost\toffline\t", want: []string{vnode(clear)}},
		{name: "the administrator's on top", server: "pbshost\toffline\tmine",
			want: []string{vnode(clear), vnode("comment=mine")}},
		// MoM sends its natural vnode first, wherever that stands here (mom_hook_func.c,
		// get_hook_results).
		{name: "comments of all vnodes", server: "pbshost[1]\toffline\tb\npbshost\toffline\ta " + text, event: two,
			want: []string{strings.Replace(vnode("comment=b"), `t"`, `t[1]"`, 1), vnode(clear), vnode("comment=a")}},
		{name: "offline for another cause as well", server: "pbshost\toffline\t" + cgroup + " " + text,
			want: []string{vnode("comment=" + cgroup)}},
		{name: "offline for another cause from now on", server: "pbshost\toffline\t" + text,
			answer: []string{"offline", "pbshost", cgroup}, want: []string{vnode("comment=" + cgroup)},
			log: "is offline already"},
		{name: "another cause is over as well", server: "pbshost\toffline\t" + cgroup + " " + text,
			answer: []string{"online", "pbshost", cgroup}, want: []string{vnode(clear), vnode("comment=")}},
		{name: "server cannot be asked", server: "refuse", stays: true, log: "the server cannot be asked"},
		{name: "nobody answers", server: "pbshost\toffline\t" + text, silent: true, event: told("ok"),
			want: []string{degraded}, stays: true, log: "accepted: "},
		{name: "nobody answers again", server: "pbshost\toffline\t" + text, silent: true, event: told("degraded"),
			stays: true, log: "accepted: "},
		{name: "nobody answers since MoM was restarted", server: "pbshost\toffline\t" + text, silent: true,
			want: []string{degraded}, stays: true, log: "accepted: "},
		{name: "nobody answers, and the server was restarted", server: "pbshost\toffline\t", silent: true,
			event: told("degraded"), want: []string{vnode("comment=" + text)}, stays: true,
			log: "; vnode pbshost is offline already: its comment was lost\n"},
		{name: "nobody answers, and it was brought back by hand", server: "pbshost\tfree\t", silent: true,
			event: told("degraded"), stays: true, log: "accepted: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newHookMoM(t, `wait = "0s"`)
			server(m, tt.server)
			if !tt.silent {
				answering(t, m, append(tt.answer, "accept")...)
			}
			must.NoError(t, os.WriteFile(m.at("hooks/shim.offline"), nil, 0o600))
			r := m.run(cmp.Or(tt.event, periodic))
			var lines []string
			for line := range strings.Lines(r.out) {
				if strings.Contains(line, "vnode_list") {
					lines = append(lines, line)
				}
			}
			if !slices.Equal(lines, tt.want) || !r.accepted() || mark(m) != tt.stays ||
				!strings.Contains(r.said, tt.log) || (r.said != "") != (tt.log != "") {
				t.Errorf("mark %t\n%s%s", mark(m), r.out, r.said)
			}
		})
	}
}

// The daemon may want to know what the server has of the vnodes. The shim sends that before
// anything is done.
func TestShimAsksTheServer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1200)
	for _, tt := range []struct {
		server, want string
		slow         time.Duration
	}{
		{"pbshost\toffline,down\tdisk\x01 is slow",
			"pbs.event().vnode_list[\"pbshost\"].state=down,offline\n" +
				"pbs.event().vnode_list[\"pbshost\"].comment=disk  is slow\n", 0},
		{"pbshost\toffline\tdisk is slow",
			"pbs.event().vnode_list[\"pbshost\"].state=offline\npbs.event().vnode_list[\"pbshost\"].comment=disk is " +
				"slow\n", 1100 * time.Millisecond},
		{"pbshost\toffline\t" + long + " disk is slow", "pbs.event().vnode_list[\"pbshost\"].state=offline\n" +
			"pbs.event().vnode_list[\"pbshost\"].comment=" + long + " disk is slow\n", 0},
		{"refuse", "", 0},
	} {
		m := newHookMoM(t)
		must.NoError(t, os.WriteFile(m.at("server"), []byte(tt.server), 0o600))
		m.env = []string{"PBS_STANDIN_SERVER=" + m.at("server")}
		d := startDaemon(t, m.socket, true, func(c net.Conn, r fakeRequest) {
			if r.head.Get("Hookhost-Asked") == "" {
				time.Sleep(tt.slow)
				respond(c, 200, changesType, changes("ask"))
				return
			}
			respond(c, 200, changesType, changes("online", "pbshost", "is slow", "accept"))
		})
		input := anEvent(t, "exechost_periodic")
		r := m.run(input)
		q := d.requests()
		if !r.accepted() || len(q) != 2 || added(q[0].body, input) != "" || added(q[1].body, input) != tt.want {
			t.Fatalf("%s%s%+v", r.out, r.said, q)
		}
		// The daemon finds it, whatever else the shim has to say.
		e, err := openpbs.Decode([]byte(q[1].body))
		must.NoError(t, err)
		if v := e.Request.VnodeList["pbshost"]; tt.want != "" && (v == nil || !strings.Contains(v.State, "offline") ||
			v.Comment == nil || !strings.Contains(*v.Comment, "is slow")) {
			t.Errorf("the daemon reads %+v", v)
		}
		if tt.want != "" && (!strings.Contains(r.out, `vnode_list["pbshost"].comment=`) ||
			!strings.Contains(r.out, "disk\n")) {
			t.Errorf("%s%s", r.out, r.said)
		}
	}
}

// Many at a time wait for one daemon with a short backlog; all are answered.
func TestShimCrowd(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	var mu sync.Mutex
	startDaemon(t, m.socket, true, func(c net.Conn, r fakeRequest) {
		mu.Lock()
		time.Sleep(5 * time.Millisecond)
		mu.Unlock()
		respond(c, 200, changesType, changes("accept"))
	})
	s := &many{m: m}
	for i := range 60 {
		s.add(fmt.Sprint(i), withAlarm(anEvent(t, "execjob_attach"), 120), m.at("hooks/shim.CF"))
	}
	for name, r := range s.run(60, nil) {
		r.wantAccepted(t, name)
	}
}
