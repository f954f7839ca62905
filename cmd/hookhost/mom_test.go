package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/must"
)

// Tests play pbs_mom: an event is the file that MoM writes for a hook. The hook is the one that is
// registered with PBS, under python3 with a stand-in for the module pbs. What counts is the file
// that MoM reads afterwards, and the kernel's state.

// means is how an event comes to the daemon.
type means int

const (
	byShim means = iota // MoM's file, by the hook that is registered with PBS
	byFile              // MoM's file, by `hookhost event`
)

// momHost is the host's name in events, as in those that were captured from a running pbs_mom.
const momHost = "pbshost"

// A mom does what pbs_mom does with its hooks, for one node.
type mom struct {
	*node
	name   string // of the host
	home   string // PBS_MOM_HOME
	daemon *daemon
	by     means
	events atomic.Int32
}

// newMoM makes a node with a MoM beside. The daemon is still to be started: serve.
func newMoM(t *testing.T, config ...string) *mom { return newMoMOf(t, momHost, config...) }

func newMoMOf(t *testing.T, name string, config ...string) *mom {
	t.Helper()
	n := newNode(t, config...)
	m := &mom{node: n, name: name, home: n.path("mom")}
	for _, dir := range []string{"mom_priv/jobs", "mom_priv/hooks/tmp", "mom_logs", "aux", "spool"} {
		must.NoError(t, os.MkdirAll(m.at(dir), 0o755))
	}
	must.NoError(t, os.Chmod(n.dir, 0o711), os.Chmod(m.at("spool"), 0o1777))
	for _, c := range []string{fmt.Sprintf("\n[host]\nnode = %q\nstart_timeout = \"60s\"\n", name),
		fmt.Sprintf("[openpbs]\nhome = %q\n", m.home)} {
		m.configure(c)
	}
	must.NoError(t, os.WriteFile(m.at("mom_priv/hooks/hookhost.PY"), openpbs.Script(""), 0o600),
		os.WriteFile(m.at("mom_priv/hooks/hookhost.CF"), fmt.Appendf(nil, "[shim]\nsocket = %q\n", n.path("run/s")),
			0o600),
		os.WriteFile(m.at("mom_priv/hooks/resourcedef"), []byte("diag_messages type=string\n"), 0o600))
	return m
}

// serve starts the daemon.
func (m *mom) serve() *daemon {
	m.t.Helper()
	m.daemon = m.node.serve()
	return m.daemon
}

func (m *mom) at(name string) string { return filepath.Join(m.home, name) }

// configure adds to the node's configuration.
func (m *mom) configure(text string) {
	m.t.Helper()
	f, err := os.OpenFile(m.path("hookhost.toml"), os.O_WRONLY|os.O_APPEND, 0)
	must.NoError(m.t, err)
	_, err = f.WriteString(text)
	must.NoError(m.t, err, f.Close())
}

// has tells the daemon, as MoM does by the job's own file, that the job is MoM's.
func (m *mom) has(id string) {
	m.t.Helper()
	must.NoError(m.t, os.WriteFile(m.at("mom_priv/jobs/"+id+".JB"), nil, 0o600))
}

// hadNot takes that back.
func (m *mom) hadNot(id string) { os.Remove(m.at("mom_priv/jobs/" + id + ".JB")) }

// pbsJob is what an event tells of a job.
type pbsJob struct {
	id   string
	list string // Resource_List: "ncpus=1,mem=64mb", all of it in one chunk of this host
	run  int
}

// input is the file that MoM writes for a hook.
func (m *mom) input(event string, j pbsJob, more ...string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, "pbs.event()."+format+"\n", args...) }
	list := strings.Split(j.list, ",")
	for _, line := range more {
		say("%s", line)
	}
	say("job.id=%s", j.id)
	say("job.Job_Name=test")
	say("job.Job_Owner=nobody@%s", m.name)
	say("job.queue=workq")
	say("job.server=%s", m.name)
	say("job.exec_host2=%s:15002/0", m.name)
	say("job.exec_vnode=(%s:%s)", m.name, strings.Join(list, ":"))
	for _, r := range list {
		name, value, _ := strings.Cut(r, "=")
		say("job.Resource_List[%s]=%s", name, value)
	}
	say("job.schedselect=1:%s", strings.Join(list, ":"))
	say("job.euser=nobody")
	say("job.egroup=nogroup")
	say("job.hashname=%s", j.id)
	say("job.run_count=%d", max(1, j.run))
	say("job.job_kill_delay=1")
	say("job.project=_pbs_project_default")
	say("job.run_version=%d", max(1, j.run))
	say("job._msmom=True")
	out, err := "", ""
	if event != "execjob_begin" {
		out, err = m.at("spool/"+j.id+".OU"), m.at("spool/"+j.id+".ER")
	}
	say("job._stdout_file=%s", out)
	say("job._stderr_file=%s", err)
	return b.String() + m.tail(event)
}

// hostInput is that of an event that is about no job. periodic's job_list is empty: lines may
// bring jobs.
func (m *mom) hostInput(event string, lines ...string) string {
	text := ""
	if event == "exechost_periodic" {
		text = "pbs.event().freq=120\n"
	}
	for _, line := range lines {
		text += "pbs.event()." + line + "\n"
	}
	return text + m.tail(event)
}

func (m *mom) tail(event string) string {
	return fmt.Sprintf(`pbs.event().vnode_list["%[1]s"].pcpus=2
pbs.event().vnode_list["%[1]s"].resources_available[ncpus]=2
pbs.event().vnode_list["%[1]s"].resources_available[arch]=linux
pbs.get_local_nodename()=%[1]s
pbs.event().type=%[2]s
pbs.event().hook_name=hookhost
pbs.event().hook_type=site
pbs.event().requestor=pbs_mom
pbs.event().requestor_host=%[1]s
pbs.event().user=pbsadmin
pbs.event().alarm=60
`, m.name, event)
}

// hook calls the hook as MoM itself does at most events.
func (m *mom) hook(input string) answer {
	m.t.Helper()
	c := m.prepare(input, 0)
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env, cmd.Dir = c.env, c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as MoM's child; and an attach takes the caller's session in
	said, err := cmd.CombinedOutput()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		m.t.Fatal(err)
	}
	return m.read(c, input, string(said), cmd.ProcessState.ExitCode())
}

// job calls the hook for an event of a job.
func (m *mom) job(event string, j pbsJob, more ...string) answer {
	m.t.Helper()
	return m.hook(m.input(event, j, more...))
}

// begin has a job begin, fails the test if that is not accepted, and keeps the job as MoM does.
// Whatever becomes of the test, the job is ended.
func (m *mom) begin(j pbsJob) answer {
	m.t.Helper()
	a := m.job("execjob_begin", j)
	if !a.accepted {
		m.t.Fatalf("begin of %s: %+v", j.id, a)
	}
	m.has(j.id)
	m.endAtLast(j)
	return a
}

func (m *mom) endAtLast(j pbsJob) {
	m.t.Cleanup(func() {
		if exists(m.path("run/s")) {
			m.send("execjob_end", fmt.Sprintf(`{"job": {"id": %q}}`, j.id))
		}
	})
}

// dirsOf returns the directories of a job, in whatever hierarchy.
func (m *mom) dirsOf(id string) []string {
	var dirs []string
	for _, procs := range m.jobDirs() {
		if dir := filepath.Dir(procs); filepath.Base(dir) == id {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// limit is the job's memory limit as the kernel has it, in bytes; what all jobs may have where it
// asked for none.
func (m *mom) limit(id string) int64 {
	m.t.Helper()
	for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
		if b, err := os.ReadFile(filepath.Join(m.memoryDir(id), file)); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			must.NoError(m.t, err)
			return n
		}
	}
	m.t.Errorf("job %s has no memory limit", id)
	return 0
}

// register makes testdata/hooks/play a hook for one event; config is the rest of its
// configuration.
func (m *mom) register(name, event string, order int, config string) {
	m.t.Helper()
	file := m.write(name+".toml", fmt.Sprintf("event = %q\n%s", event, config))
	m.commands("hook create "+name,
		fmt.Sprintf("hook set %s event=%s order=%d", name, event, order),
		"hook import "+name+" application/x-executable default "+sample(m.t, "play"), "hook import "+name+
			" application/x-config default "+file)
}
