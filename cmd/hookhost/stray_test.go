package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// nap is a sleep on a host that is told from others by how long it sleeps.
type nap struct {
	t    *testing.T
	host *labHost
	time string
}

// slept counts naps: each number is used once.
var slept = 1_000_000 + os.Getpid()%1000*1000

func (h *labHost) nap(t *testing.T) *nap {
	slept++
	return &nap{t, h, strconv.Itoa(slept)}
}

// start runs a command that ends in the sleep, and waits until it sleeps.
func (s *nap) start(cmd *exec.Cmd) *nap {
	s.t.Helper()
	cmd.Args = append(cmd.Args, "sleep", s.time)
	must.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		for _, pid := range processesNamed("sleep", s.time) { // its own number: the command's may be another's
			syscall.Kill(pid, syscall.SIGKILL)
		}
		cmd.Cancel()
		cmd.Wait()
	})
	must.Eventually(s.t, "sleep "+s.time+" runs", s.lives)
	return s
}

func (s *nap) lives() bool { return len(processesNamed("sleep", s.time)) == 1 }

// pid is its number as its host counts.
func (s *nap) pid() int {
	s.t.Helper()
	pids := processesNamed("sleep", s.time)
	if len(pids) != 1 {
		s.t.Fatalf("sleep %s: %v", s.time, pids)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[0]))
	must.NoError(s.t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(rest)
			pid, err := strconv.Atoi(all[len(all)-1])
			must.NoError(s.t, err)
			return pid
		}
	}
	s.t.Fatal("no NSpid")
	return 0
}

func (s *nap) isIn(j *labJob) bool {
	pids := processesNamed("sleep", s.time)
	return len(pids) == 1 && slices.Contains(j.processes(s.host, "sleep"), pids[0])
}

// seen returns the job as a host knows it now.
func (j *labJob) seen(t *testing.T, h *labHost) api.Job {
	t.Helper()
	c, err := api.Dial(h.node.path("run/s"))
	must.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = c.Report(ctx, j.id) // measured now
	must.NoError(t, err)
	job, err := c.Job(ctx, j.id)
	must.NoError(t, err)
	return job
}

// noted reports whether a job's report on a host has that note about the sleep.
func (s *nap) noted(j *labJob, format string) bool {
	s.t.Helper()
	return slices.Contains(j.seen(s.t, s.host).Notes, fmt.Sprintf(format, s.pid()))
}

// A process that gets out of a job comes back into it. A process that is none of the job's is left
// alone.
func TestStraysComeBackIntoTheirJob(t *testing.T) {
	l := newLab(t, 2, together)
	for _, h := range l.hosts {
		h.must(h.hookhost("hook", "set", "mpi", "freq=1")...)
	}
	j := l.begin(t, "77.lab", labUser, labUID)
	first, second := l.hosts[0], l.hosts[1]
	cron := l.path("cron")
	b, err := os.ReadFile("/bin/bash")
	must.NoError(t, err, os.WriteFile(cron, b, 0o755))
	child := fmt.Sprintf("setpriv --reuid %d --regid %d --clear-groups env PBS_JOBID=%s \"$@\" & wait", labUID, labUID,
		j.id)

	left := map[string]*nap{
		"a login":               second.nap(t).start(first.as(labUser, "ssh", "n2")),
		"a login at a terminal": second.nap(t).start(first.as(labUser, "ssh", "-tt", "n2", "PBS_JOBID="+j.id)),
		"cron's":                second.nap(t).start(second.in(cron, "-c", child, "cron")),
		"another user's":        second.nap(t).start(second.as(labOther, "env", "PBS_JOBID="+j.id)),
		"nobody knows whose":    second.nap(t).start(second.as(labUser, "setsid", "-f", "env", "-i")),
	}
	taken := map[string]*nap{
		"ssh from n1": second.nap(t).start(j.command(nil, "ssh", "n2")),
		"environment": second.nap(t).start(second.as(labUser, "setsid", "-f", "env", "PBS_JOBID="+j.id)),
	}
	for how, s := range taken {
		must.Eventually(t, "what belongs to the job by its "+how+" is in it", func() bool { return s.isIn(j) })
		must.Eventually(t, "the note about "+how, func() bool { return s.noted(j, "adopted pid %d (sleep): "+how) })
	}
	lost := left["nobody knows whose"]
	must.Eventually(t, "the note about what nobody knows", func() bool {
		return lost.noted(j, "pid %d (sleep) of the job's owner is outside of the job: nothing says what it belongs to")
	})
	// All the others are older than this one: whatever is done about them was done before.
	last := second.nap(t).start(j.command(nil, "ssh", "n2"))
	must.Eventually(t, "a later one is in the job", func() bool { return last.isIn(j) })
	usage := j.seen(t, second).Hosts["n2"]
	if usage == nil || usage.Strays < 1 || usage.ProcessesAttached < 3 {
		t.Errorf("usage: %+v", usage)
	}
	notes := strings.Join(j.seen(t, second).Notes, "\n")
	for what, s := range left {
		if s.isIn(j) {
			t.Errorf("%s is in the job", what)
		}
		if s != lost && strings.Contains(notes, fmt.Sprintf("pid %d ", s.pid())) {
			t.Errorf("the job's report tells of %s:\n%s", what, notes)
		}
	}

	t.Run("another host's word", func(t *testing.T) {
		c, err := api.Dial(first.node.path("run/s"))
		must.NoError(t, err)
		defer c.Close()
		for what, s := range left {
			var refused *api.Error
			if _, err := c.Attach(t.Context(), "n2", j.id, s.pid()); !errors.As(err, &refused) ||
				refused.Kind != api.KindTMOwner {
				t.Errorf("%s: %v", what, err)
			}
		}
		for how, s := range taken { // once more
			if _, err := c.Attach(t.Context(), "n2", j.id, s.pid()); err != nil {
				t.Errorf("%s: %v", how, err)
			}
		}
		fresh := second.nap(t).start(second.as(labUser, "setsid", "-f", "env", "PBS_JOBID="+j.id))
		if _, err := c.Attach(t.Context(), "n2", j.id, fresh.pid()); err != nil || !fresh.isIn(j) {
			t.Errorf("one whose environment is evidence: in the job: %v, %v", fresh.isIn(j), err)
		}
	})
	t.Run("the end", func(t *testing.T) {
		for _, host := range l.hosts {
			for _, event := range []string{"execjob_epilogue", "execjob_end"} {
				if out, err := j.event(host, event, nil); err != nil {
					t.Errorf("%s on %s: %v\n%s", event, host.name, err, out)
				}
			}
		}
		for how, s := range taken {
			if s.lives() {
				t.Errorf("%s: it lives", how)
			}
		}
		for what, s := range left {
			if !s.lives() {
				t.Errorf("%s: it is gone", what)
			}
		}
	})
}

// TestSSHToTheOwnHost has a job leave itself by ssh to the host that it is on, in each way that
// hides where it came from. A process is taken in while its connection says whose it is, and
// reported once nothing does.
func TestSSHToTheOwnHost(t *testing.T) {
	l := newLab(t, 1)
	h := l.hosts[0]
	h.must(h.hookhost("hook", "set", "mpi", "freq=1")...)
	j := l.begin(t, "77.lab", labUser, labUID)
	const apart = `'exec "$@" <&- >&- 2>&-'`
	named := l.path("hookhost")
	b, err := os.ReadFile("/bin/bash")
	must.NoError(t, err, os.WriteFile(named, b, 0o755))
	taken := map[string]*nap{
		"a connection that lives":                    h.nap(t).start(j.command(nil, "ssh", "n1")),
		"the same, and the environment says nothing": h.nap(t).start(j.command(nil, "ssh", "n1", "env", "-i")),
		"the same, and the environment says a lie": h.nap(t).start(j.command(nil, "ssh", "n1",
			"SSH_CONNECTION='203.0.113.5 1 203.0.113.6 22'")),
		"the same, below what a user has called a name": h.nap(t).start(j.command(nil, "ssh", "n1", "env", "-i", named,
			"-c", `'"$@"; :'`, "hookhost")),
	}
	reported := map[string]*nap{
		"it came by ssh, and nothing says from which job or login": h.nap(t).start(j.command(nil, "ssh", "n1",
			"setsid", "-f", "sh", "-c", apart, "sh")),
		"it came by ssh, and nothing says from which job or login ": h.nap(t).start(j.command(nil, "ssh", "n1",
			"setsid", "-f", "env", "-i", "SSH_CONNECTION='203.0.113.5 1 203.0.113.6 22'", "sh", "-c", apart, "sh")),
		"nothing says what it belongs to": h.nap(t).start(j.command(nil, "ssh", "n1", "setsid", "-f", "env", "-i", "sh",
			"-c", apart, "sh")),
	}
	login := h.nap(t).start(h.as(labUser, "ssh", "n1"))
	for how, s := range taken {
		must.Eventually(t, how+": it is in the job", func() bool { return s.isIn(j) })
	}
	must.Eventually(t, "the notes of those that are in the job", func() bool {
		return strings.Count(strings.Join(j.seen(t, h).Notes, "\n"), ": ssh from n1") >= len(taken)
	})
	for why, s := range reported {
		must.Eventually(t, strings.TrimSpace(why)+": the note", func() bool {
			return s.noted(j, "pid %d (sleep) of the job's owner is outside of the job: "+strings.TrimSpace(why))
		})
	}
	last := h.nap(t).start(j.command(nil, "ssh", "n1")) // all that was before it was looked at
	must.Eventually(t, "a later one is in the job", func() bool { return last.isIn(j) })
	if login.isIn(j) || strings.Contains(strings.Join(j.seen(t, h).Notes, "\n"), fmt.Sprintf("pid %d ", login.pid())) {
		t.Errorf("a login is taken for a stray")
	}
}
