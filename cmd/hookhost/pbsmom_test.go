package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// Below, events of pbs_mom come straight to the daemon, without the hook that carries them there:
// what is said on the socket, and when.

// dialMoM sends an event and leaves the answer to be read.
func (m *mom) dialMoM(input string, header ...string) net.Conn {
	m.t.Helper()
	conn, err := net.Dial("unix", m.path("run/s"))
	must.NoError(m.t, err)
	m.t.Cleanup(func() { conn.Close() })
	lines := strings.Join(append(header, ""), "\r\n")
	_, err = fmt.Fprintf(conn, "POST /v1/pbs/event HTTP/1.0\r\nContent-Length: %d\r\n%s\r\n%s", len(input), lines,
		input)
	must.NoError(m.t, err)
	return conn
}

// post sends an event and returns the verbs of the answer, each in a line with its fields. A body
// that is no changes is returned as a whole.
func (m *mom) post(input string, header ...string) string {
	m.t.Helper()
	return m.verbs(m.dialMoM(input, header...))
}

func (m *mom) verbs(conn net.Conn) string {
	m.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.NoError(m.t, err)
	b, err := io.ReadAll(resp.Body)
	must.NoError(m.t, err)
	body := string(b)
	if resp.Header.Get("Content-Type") != "application/x-hookhost-changes" {
		m.t.Logf("%s, %s: %s", resp.Status, resp.Header.Get("Content-Type"), body)
		return body
	}
	fields, ok := strings.CutPrefix(body, "hookhost/1\x00")
	fields, ended := strings.CutSuffix(fields, "end\x00")
	if !ok || !ended || resp.StatusCode != 200 {
		m.t.Fatalf("%s: %q", resp.Status, body)
	}
	count := map[string]int{"log": 2, "used": 4, "vnode": 5, "offline": 2, "online": 2, "reject": 1}
	text, rest := "", strings.Split(strings.TrimSuffix(fields, "\x00"), "\x00")
	for len(rest) > 0 && rest[0] != "" {
		n := 1 + count[rest[0]]
		if n > len(rest) {
			m.t.Fatalf("truncated: %q", body)
		}
		text, rest = text+strings.Join(rest[:n], " ")+"\n", rest[n:]
	}
	m.t.Logf("%s", text)
	return text
}

func alarmed(input, alarm string) string {
	return strings.Replace(input, "alarm=60", "alarm="+alarm, 1)
}

// A whole job: what begin claims, what periodic tells of it, and what is said in MoM's own words
// where these can say it.
func TestPBSEventsOfAJobAreAnswered(t *testing.T) {
	must.BesideOthers(t)
	m := newMoM(t)
	m.serve()
	j := pbsJob{id: "1.pbshost", list: "ncpus=1,mem=32mb"}
	began := m.post(m.input("execjob_begin", j))
	m.endAtLast(j)
	for _, want := range []string{"used  cput duration 00:00:00\n", "used  mem size 0kb\n", "used  cpupercent long 0\n",
		"accept\n"} {
		if !strings.Contains(began, want) {
			t.Errorf("begin: %q is missing in\n%s", want, began)
		}
	}
	m.has(j.id)
	if out := m.post(m.input("execjob_prologue", j), "Accept: application/x-pbs-hook-output"); !strings.Contains(out,
		"pbs.event().accept=True\n") {
		t.Errorf("prologue in MoM's words: %q", out)
	}
	listed := fmt.Sprintf("job_list[%q].job_state=R", j.id)
	if out := m.post(m.hostInput("exechost_periodic", listed)); !strings.Contains(out, "used "+j.id+" mem size ") ||
		!strings.HasSuffix(out, "accept\n") {
		t.Errorf("periodic: %s", out)
	}
	// The kernel says who leads the job's session.
	launch := m.input("execjob_launch", j, "progname=/bin/true", `env="""PATH=/bin"""`)
	if out := m.post(launch, "Hookhost-Parent: 1"); !strings.Contains(out, "rerun\n") ||
		!strings.Contains(out, "says that its parent is 1, the kernel that it is ") {
		t.Errorf("launch of a stranger's session: %s", out)
	}
	if out := m.post("nonsense"); !strings.Contains(out, `"error"`) {
		t.Errorf("no event: %s", out)
	}
	if out := m.post(m.input("execjob_epilogue", j, "job.Exit_status=0")); !strings.Contains(out, "used  mem size ") ||
		!strings.HasSuffix(out, "accept\n") {
		t.Errorf("epilogue: %s", out)
	}
	if out := m.post(m.input("execjob_end", j)); out != "accept\n" || len(m.dirsOf(j.id)) > 0 {
		t.Errorf("end: %s", out)
	}
}

// An event that is not over before MoM's alarm is answered all the same. A begin leaves nothing
// then, nor does one whose hook MoM has killed. An epilogue goes on to its end.
func TestPBSAnswerComesBeforeTheAlarm(t *testing.T) {
	m := newMoM(t)
	m.register("slow", "execjob_begin", 500, fmt.Sprintf("arrived = %q\nuntil = %q\n", m.path("begins"), m.path("go")))
	m.register("last", "execjob_epilogue", 500, fmt.Sprintf("arrived = %q\nuntil = %q\n", m.path("ends"), m.path("go")))
	m.commands("hook set slow alarm=120")
	m.serve()
	m.post(m.hostInput("exechost_periodic")) // hook cgroup has started when it is answered
	arrived := func(file, id string) bool {
		b, _ := os.ReadFile(m.path(file))
		return strings.Contains(string(b), id)
	}
	alarm := enough(10)
	late, gone := pbsJob{id: "1.pbshost", list: "ncpus=0"}, pbsJob{id: "2.pbshost", list: "ncpus=0"}
	start := time.Now()
	want := fmt.Sprintf("rerun\nreject hookhost: execjob_begin of job 1.pbshost: no answer in time (%d s of %d), "+
		"hook 'slow' is at it: it is undone", alarm-alarm/10, alarm)
	if out := m.post(alarmed(m.input("execjob_begin", late), fmt.Sprint(alarm))); !strings.Contains(out, want) {
		t.Errorf("begin: %s", out)
	}
	if took := time.Since(start); took >= time.Duration(alarm)*time.Second {
		t.Errorf("it took %v", took)
	}
	conn := m.dialMoM(m.input("execjob_begin", gone))
	must.Eventually(t, "the second begin is under way", func() bool { return arrived("begins", gone.id) })
	conn.Close()
	if len(m.dirsOf(late.id)) == 0 || len(m.dirsOf(gone.id)) == 0 {
		t.Error("the jobs have no cgroups yet: nothing is tested")
	}
	time.Sleep(time.Second) // the daemon has seen it by then
	must.NoError(t, os.WriteFile(m.path("go"), nil, 0o600))
	must.Eventually(t, "both are undone", func() bool { return len(m.dirsOf(late.id))+len(m.dirsOf(gone.id)) == 0 })

	must.NoError(t, os.Remove(m.path("go")))
	done := make(chan string)
	go func() {
		// There is no such job: hooks clean up all the same.
		out := m.post(alarmed(m.input("execjob_epilogue", gone), "2"))
		done <- out
	}()
	if out := <-done; !strings.HasPrefix(out,
		"log error hookhost: execjob_epilogue of job 2.pbshost: no answer in time (1 s of 2)") ||
		!strings.Contains(out, `used  diag_messages string {"pbshost":"resources_used is incomplete: no answer in time (`) ||
		!strings.HasSuffix(out, "\naccept\n") {
		t.Errorf("epilogue: %s", out)
	}
	must.NoError(t, os.WriteFile(m.path("go"), nil, 0o600))
	if out := m.post(m.input("execjob_end", gone)); out != "accept\n" { // in its turn
		t.Errorf("end: %s", out)
	}
}

// The hook gives a daemon up that is stopped. When the daemon goes on it begins nothing of that,
// and ends what has ended.
func TestPBSEventsThatAStoppedDaemonMissed(t *testing.T) {
	must.BesideOthers(t)
	m := newMoM(t)
	d := m.serve()
	ended, begun := pbsJob{id: "1.pbshost", list: "ncpus=0", run: 1}, pbsJob{id: "2.pbshost", list: "ncpus=0", run: 1}
	m.begin(ended)
	must.NoError(t, d.cmd.Process.Signal(unix.SIGSTOP))
	t.Cleanup(func() { d.cmd.Process.Signal(unix.SIGCONT) })
	must.Eventually(t, "the daemon has stopped", func() bool { return state(d.cmd.Process.Pid) == "T" })
	for _, input := range []string{m.input("execjob_begin", begun), m.input("execjob_epilogue", ended),
		m.input("execjob_end", ended)} {
		conn, err := net.Dial("unix", m.path("run/s"))
		must.NoError(t, err)
		_, err = fmt.Fprintf(conn,
			"POST /v1/pbs/event HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"+
				"Content-Length: %d\r\n\r\n%s", len(input), input)
		must.NoError(t, err, conn.Close())
	}
	if a := m.job("execjob_begin", begun); a.accepted || !strings.Contains(a.message, "no sign of life") {
		t.Errorf("the begin of a daemon that is stopped: %+v", a)
	}
	m.hadNot(ended.id)
	must.NoError(t, d.cmd.Process.Signal(unix.SIGCONT))
	must.Eventually(t, "the job that has ended is gone", func() bool { return len(m.dirsOf(ended.id)) == 0 })
	log := func() string {
		b, err := os.ReadFile(d.log.Name())
		must.NoError(t, err)
		return string(b)
	}
	must.Eventually(t, "both begins are refused", func() bool {
		return strings.Count(log(), "execjob_begin of job 2.pbshost: pbs_mom has given it up before it was read") == 2
	})
	if dirs := m.dirsOf(begun.id); len(dirs) > 0 || strings.Contains(log(), "event=execjob_begin job=2.pbshost") {
		t.Errorf("a begin that nobody waits for was carried out: %v", dirs)
	}
}

// A MoM that gets the hook while it runs begins with exechost_periodic: that tells of the vnodes
// what its exechost_startup would have told. The server knows the vnodes already if MoM's vnodes
// have it all, or if exechost_startup has come.
func TestPBSPeriodicTellsTheVnodesThatStartupHasNotTold(t *testing.T) {
	must.BesideOthers(t)
	told := func(t *testing.T, events ...string) string {
		m := newMoM(t)
		m.serve()
		m.by = byFile
		var out string
		for _, input := range events {
			event, vnodes, _ := strings.Cut(input, "\n")
			out = m.post(m.hostInput(event, strings.Fields(vnodes)...))
		}
		return out
	}
	const known = "\nvnode_list[\"pbshost\"].resources_available[ncpus]=2" +
		"\nvnode_list[\"pbshost\"].resources_available[mem]=9kb"
	const all = known + "\nvnode_list[\"pbshost\"].resources_available[vmem]=9kb" +
		"\nvnode_list[\"pbshost\"].resources_available[hpmem]=0kb" +
		"\nvnode_list[\"pbshost\"].resources_available[ngpus]=0"
	for _, tt := range []struct {
		name   string
		events []string
		tells  bool
	}{
		{"the first", []string{"exechost_periodic" + known}, true},
		{"without vnodes", []string{"exechost_periodic"}, true},
		{"the second", []string{"exechost_periodic" + known, "exechost_periodic" + known}, false},
		{"behind startup", []string{"exechost_startup" + known, "exechost_periodic" + known}, false},
		{"of a MoM whose startup an earlier daemon has seen", []string{"exechost_periodic" + all}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := told(t, tt.events...)
			if tells := strings.Contains(out, "vnode pbshost resources_available vmem size "); tells != tt.tells ||
				!strings.HasSuffix(out, "accept\n") {
				t.Errorf("it tells of vnodes: %t\n%s", tells, out)
			}
		})
	}
}

// A job that MoM has dropped after its begin begins again at once, and makes room for the next
// one. A job that MoM has makes none.
func TestPBSDroppedJobsMakeRoom(t *testing.T) {
	must.BesideOthers(t)
	m := newMoM(t)
	m.serve()
	m.by = byFile
	all := 0
	for line := range strings.Lines(m.post(m.hostInput("exechost_startup"))) {
		fmt.Sscanf(line, "vnode pbshost resources_available ncpus long %d", &all)
	}
	if all == 0 {
		t.Fatal("the host has no cpus")
	}
	list := fmt.Sprintf("ncpus=%d,mem=32mb", all)
	first, second, third := pbsJob{id: "1.pbshost", list: list}, pbsJob{id: "2.pbshost", list: list},
		pbsJob{id: "3.pbshost", list: list}
	again := first
	again.run = 2
	for _, j := range []pbsJob{first, again} {
		if out := m.post(m.input("execjob_begin", j)); !strings.HasSuffix(out, "accept\n") {
			t.Errorf("run %d: %s", j.run, out)
		}
		m.endAtLast(j)
	}
	must.Eventually(t, "the second has begun",
		func() bool { return strings.HasSuffix(m.post(m.input("execjob_begin", second)), "accept\n") })
	m.endAtLast(second)
	if len(m.dirsOf(first.id)) > 0 || len(m.dirsOf(second.id)) == 0 {
		t.Errorf("the first has %v, the second %v", m.dirsOf(first.id), m.dirsOf(second.id))
	}
	m.has(second.id)
	time.Sleep(1100 * time.Millisecond) // a dropped one would make room by now
	if out := m.post(m.input("execjob_begin", third)); !strings.Contains(out, "rerun\nreject ") {
		t.Errorf("beside a job that MoM has: %s", out)
	}
	// Taken for dropped too early, the first begins at its prologue, if there is room by then.
	m.has(first.id)
	if out := m.post(m.input("execjob_prologue", first)); !strings.Contains(out, "rerun\nreject ") {
		t.Errorf("prologue of a dropped job without room: %s", out)
	}
	m.post(m.input("execjob_end", second))
	if out := m.post(m.input("execjob_prologue", first)); !strings.HasSuffix(out, "accept\n") ||
		len(m.dirsOf(first.id)) == 0 {
		t.Errorf("prologue of a dropped job: %s", out)
	}
}

// The hook's working directory tells which MoM a job is of, whatever is configured. A MoM that
// does not have the job of another says nothing.
func TestPBSSeveralMoMs(t *testing.T) {
	must.BesideOthers(t)
	configured := newMoM(t)
	configured.serve()
	m := &mom{node: configured.node, name: configured.name, home: configured.path("other"), by: byShim}
	must.NoError(t, os.MkdirAll(m.at("mom_priv/jobs"), 0o755), os.MkdirAll(m.at("mom_priv/hooks/tmp"), 0o755),
		os.MkdirAll(m.at("mom_logs"), 0o755))
	for _, file := range []string{"mom_priv/hooks/hookhost.PY", "mom_priv/hooks/hookhost.CF"} {
		b, err := os.ReadFile(configured.at(file))
		must.NoError(t, err, os.WriteFile(m.at(file), b, 0o600))
	}
	all := 0
	for line := range strings.Lines(configured.post(configured.hostInput("exechost_startup"))) {
		fmt.Sscanf(line, "vnode pbshost resources_available ncpus long %d", &all)
	}
	if all == 0 {
		t.Fatal("the host has no cpus")
	}
	list := fmt.Sprintf("ncpus=%d,mem=32mb", all)
	first, second := pbsJob{id: "1.pbshost", list: list}, pbsJob{id: "2.pbshost", list: list}
	if a := m.job("execjob_begin", first); !a.accepted {
		t.Fatalf("begin: %s", a.raw)
	}
	configured.endAtLast(first)
	configured.endAtLast(second)
	m.has(first.id)
	time.Sleep(1100 * time.Millisecond) // a dropped one would make room by now
	if out := configured.post(configured.input("execjob_begin", second)); !strings.Contains(out, "rerun\nreject ") ||
		len(m.dirsOf(first.id)) == 0 {
		t.Errorf("beside a job that its own MoM has: %s", out)
	}
	m.hadNot(first.id)
	configured.has(first.id) // says nothing: it is not this MoM's
	if out := configured.post(configured.input("execjob_begin", second)); !strings.HasSuffix(out, "accept\n") ||
		len(m.dirsOf(first.id)) > 0 {
		t.Errorf("beside a job that its own MoM has dropped: %s", out)
	}
}

// A job that another hook has put into a cgroup of its own, at the same place, runs on when
// hookhost comes. Nothing of it begins, and its end removes it.
func TestPBSJobThatRunsAlready(t *testing.T) {
	must.BesideOthers(t)
	m := newMoM(t)
	m.serve()
	first, there := pbsJob{id: "1.pbshost", list: "ncpus=0"}, pbsJob{id: "2.pbshost", list: "ncpus=0"}
	m.post(m.input("execjob_begin", first))
	m.endAtLast(first)
	m.endAtLast(there)
	program := exec.Command("sleep", "1000")
	must.NoError(t, program.Start())
	gone := make(chan error, 1)
	go func() { gone <- program.Wait() }()
	t.Cleanup(func() { program.Process.Kill() })
	for _, dir := range m.dirsOf(first.id) {
		own := filepath.Join(filepath.Dir(dir), there.id)
		must.NoError(t, os.Mkdir(own, 0o755))
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // v1 takes no process without
			if b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file)); err == nil && len(b) > 1 {
				must.NoError(t, os.WriteFile(filepath.Join(own, file), b, 0))
			}
		}
		must.NoError(t, os.WriteFile(filepath.Join(own, "cgroup.procs"), fmt.Append(nil, program.Process.Pid), 0))
	}
	m.has(there.id)
	if out := m.post(m.input("execjob_prologue", there)); !strings.Contains(out,
		"rerun\nreject execjob_prologue request rejected: the job had no execjob_begin") {
		t.Errorf("prologue: %s", out)
	}
	m.post(m.hostInput("exechost_periodic"))
	select {
	case <-gone:
		t.Fatal("its program was killed")
	case <-time.After(time.Second):
	}
	m.post(m.input("execjob_epilogue", there))
	m.post(m.input("execjob_end", there))
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("its program runs on after its end")
	}
	if dirs := m.dirsOf(there.id); len(dirs) > 0 {
		t.Errorf("left after its end: %v", dirs)
	}
}

// When a hook has put vnodes offline, periodic asks for what the server has of them, once.
func TestPBSAsksForVnodes(t *testing.T) {
	must.BesideOthers(t)
	m := newMoM(t, "[vnodes]\nonline_nodes_min_delay = \"0s\"")
	note := m.path("state/offline")
	must.NoError(t, os.MkdirAll(filepath.Dir(note), 0o700), os.WriteFile(note, []byte(`{"asked cgroup":{"comment":`+
		`"Hook cgroup: Unable to clean up one or more cgroups","since":"2026-01-01T00:00:00Z","vnodes":["pbshost"]}}`), 0o600))
	m.serve()
	plain := m.hostInput("exechost_periodic")
	if out := m.post(plain, "Accept: application/x-pbs-hook-output"); out != "ask\n" {
		t.Errorf("%s, want it to ask", out)
	}
	if out := m.post(plain, "Hookhost-Asked: yes"); strings.HasPrefix(out, "ask") || strings.Contains(out, "online") ||
		!exists(note) {
		t.Errorf("the server did not answer: %s", out)
	}
	known := plain + "pbs.event().vnode_list[\"pbshost\"].state=offline\n" +
		"pbs.event().vnode_list[\"pbshost\"].comment=rack 7; " +
		"Hook cgroup: Unable to clean up one or more cgroups\n"
	out := m.post(known, "Hookhost-Asked: yes")
	if !strings.Contains(out, "online pbshost Hook cgroup: Unable to clean up one or more cgroups\n") || exists(note) {
		t.Errorf("the server has answered: %s", out)
	}
	if out := m.post(plain); strings.HasPrefix(out, "ask") {
		t.Errorf("on line again: %s", out)
	}
}
