package main_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// A job that takes its time holds up no other. A hook that cannot have the node's own lock gives
// up in time and says so.
func TestChecklist07OneJobHoldsUpNoOther(t *testing.T) {
	m := newMoM(t)
	arrived, until := m.path("arrived"), m.path("until")
	m.register("slow", "execjob_epilogue", 900,
		fmt.Sprintf("job = \"701.pbshost\"\narrived = %q\nuntil = %q\n", arrived, until), "alarm=60")
	m.serve()
	slow, other := pbsJob{id: "701.pbshost", list: "ncpus=1,mem=32mb"},
		pbsJob{id: "702.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(slow)
	done := m.aside("execjob_epilogue", slow)
	must.Eventually(t, "an epilogue hangs", func() bool { return exists(arrived) })
	k := m.running(other, "sleep", "1000")
	if !inJob(t, k.pid(), other.id) {
		t.Error("the other job's program is outside")
	}
	if a := m.hook(m.hostInput("exechost_periodic")); !a.accepted {
		t.Errorf("periodic: %+v", a)
	}
	m.end(other)
	select {
	case a := <-done:
		t.Errorf("the epilogue has not waited: %+v", a)
	default:
	}
	must.NoError(t, os.WriteFile(until, nil, 0o600))
	if a := <-done; !a.accepted {
		t.Errorf("the epilogue that hung: %+v", a)
	}
	m.job("execjob_end", slow)

	// Somebody takes the lock of the tree before the cgroup hook: that is no fault of the node's.
	m.endDaemon()
	for _, procs := range append(m.cgroups("/jobid/cgroup.procs"), m.cgroups("/jobs/cgroup.procs")...) {
		f, err := os.Open(procs)
		must.NoError(t, err)
		defer f.Close()
		must.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	}
	m.serve()
	input := strings.Replace(m.input("execjob_begin", pbsJob{id: "703.pbshost", list: "ncpus=1,mem=32mb"}), "alarm=60",
		"alarm=4", 1)
	m.commands("hook set cgroup alarm=4")
	began := time.Now()
	a := m.hook(input)
	if took := time.Since(began); a.accepted || !a.is("job._rerun") ||
		isOffline(a.set[`vnode_list["pbshost"].state`]) || took > late+4*time.Second {
		t.Errorf("begin under somebody else's lock: %+v after %v, want it rerun in time, and the vnodes left alone", a,
			took)
	}
}

// Reject, rerun, delete and hold are apart, and a crash and an alarm are not a reject. The first
// reject is the last hook, and changes of a hook that rejects count all the same.
func TestChecklist13Verdicts(t *testing.T) {
	m := newMoM(t)
	calls := m.path("third")
	m.commands("hook create second", "hook import second application/x-executable default "+sample(t, "misbehave"),
		"hook set second order=500 fail_action=offline_vnodes")
	m.register("third", "execjob_begin", 600, fmt.Sprintf("arrived = %q\n", calls))
	m.serve()
	for i, tt := range []struct {
		name, mode     string
		says           string
		rerun, deletes bool
		hold, offline  bool
		uncounted      bool // by the server, among the runs of the job
	}{
		{name: "reject", mode: "mode = \"reject\"\nvalue = \"not today\"",
			says: "execjob_begin request rejected by 'second': not today"},
		{name: "rerun", mode: "mode = \"rerun\"\nvalue = \"later\"",
			says: "execjob_begin request rejected by 'second': later", rerun: true},
		{name: "error of the job", mode: "mode = \"error\"\nvalue = \"job\"",
			says: "rejected by 'second': error of kind job", deletes: true},
		{name: "others in the way", mode: "mode = \"error\"\nvalue = \"busy\"",
			says: "rejected by 'second': error of kind busy", rerun: true, uncounted: true},
		{name: "error of the node", mode: "mode = \"error\"\nvalue = \"node\"",
			says: "hook 'second' encountered an exception", rerun: true, offline: true},
		{name: "defect", mode: "mode = \"error\"\nvalue = \"internal\"", says: "(system hold set)", rerun: true,
			hold: true, offline: true},
		{name: "crash", mode: "mode = \"kill\"", says: "hook 'second' encountered an exception", rerun: true,
			hold: true, offline: true},
		{name: "alarm", mode: "mode = \"hang\"", says: "alarm call while running execjob_begin hook 'second'",
			rerun: true, offline: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m.t = t
			if tt.name == "alarm" {
				m.commands("hook set second alarm=2")
			}
			m.commands("hook import second application/x-config default " + m.write("second.toml", tt.mode+"\n"))
			j := pbsJob{id: fmt.Sprintf("13%02d.pbshost", i), list: "ncpus=1,mem=32mb"}
			a := m.job("execjob_begin", j)
			if a.accepted || !strings.Contains(a.message, tt.says) {
				t.Errorf("accepted %v, message %q; want a reject with %q", a.accepted, a.message, tt.says)
			}
			if a.is("job._rerun") != tt.rerun || a.is("job._delete") != tt.deletes ||
				strings.Contains(a.set["job.Hold_Types"], "s") != tt.hold {
				t.Errorf("it sets %+v; want rerun %v, delete %v, hold %v", a.set, tt.rerun, tt.deletes, tt.hold)
			}
			if got := a.set["job.run_count"] == "0"; got != tt.uncounted {
				t.Errorf("it sets %+v; want a run that is not counted: %v", a.set, tt.uncounted)
			}
			if got := isOffline(a.set[`vnode_list["pbshost"].state`]); got != tt.offline {
				t.Errorf("vnodes offline: %v, want %v", got, tt.offline)
			}
			if exists(calls) {
				t.Error("the hook behind it was called")
			}
			if left := m.dirsOf(j.id); len(left) > 0 {
				t.Errorf("the job has left %v", left)
			}
		})
	}
	m.t = t
	m.commands("hook delete second")
	for i, tt := range []struct {
		name           string
		job            pbsJob
		says           string
		rerun, deletes bool
		hold           bool
	}{
		// The server may know the node as it was: not the user's fault, and not one to take the
		// node away for.
		{name: "more cpus than there are", job: pbsJob{list: "ncpus=100000,mem=32mb"},
			says: "rejected by 'cgroup': ncpus requested (100000) exceeds", rerun: true, hold: true},
		{name: "more memory than there is", job: pbsJob{list: "ncpus=1,mem=900tb"}, says: "(system hold set)",
			rerun: true, hold: true},
		{name: "no walltime", job: pbsJob{list: "ncpus=1,walltime=abc"}, says: "walltime=abc", deletes: true},
		{name: "no number", job: pbsJob{list: "ncpus=x", chunks: "(pbshost:ncpus=1)"}, says: "ncpus=x", deletes: true},
		{name: "no chunks, which are PBS's own", job: pbsJob{list: "ncpus=1", chunks: "(pbshost:ncpus=1"},
			says: "exec_vnode", rerun: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m.t = t
			tt.job.id = fmt.Sprintf("13%02d.pbshost", 10+i)
			a := m.job("execjob_begin", tt.job)
			if a.accepted || !strings.Contains(a.message, tt.says) {
				t.Errorf("accepted %v, message %q; want a reject with %q", a.accepted, a.message, tt.says)
			}
			if a.is("job._rerun") != tt.rerun || a.is("job._delete") != tt.deletes ||
				strings.Contains(a.set["job.Hold_Types"], "s") != tt.hold {
				t.Errorf("it sets %+v; want rerun %v, delete %v, hold %v", a.set, tt.rerun, tt.deletes, tt.hold)
			}
			if isOffline(a.set[`vnode_list["pbshost"].state`]) {
				t.Error("vnodes are offline")
			}
			if count, set := a.set["job.run_count"]; set {
				t.Errorf("the run of a job that is at fault itself counts as %s", count)
			}
			if left := m.dirsOf(tt.job.id); len(left) > 0 {
				t.Errorf("the job has left %v", left)
			}
		})
	}
	m.t = t
	must.NoError(t, os.WriteFile(m.at("mom_priv/hooks/resourcedef"), []byte("fpga_seconds type=long flag=h\n"), 0o600))
	m.register("changes", "execjob_launch", 500, "reject = \"not here\"\nused = { fpga_seconds = \"7\" }\n")
	j := pbsJob{id: "1320.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(j)
	if a := m.fork().launch(j); a.accepted || a.used("fpga_seconds") != "7" {
		t.Errorf("a hook that rejects and has something to tell: %+v", a)
	}
	for _, event := range []string{"execjob_abort", "execjob_epilogue", "execjob_end"} {
		if a := m.job(event, j); !a.accepted {
			t.Errorf("%s: %+v", event, a)
		}
	}
}

func (a answer) is(name string) bool { return a.set[name] == "True" }

// Hooks are called in ascending order. An end and a periodic that hang hold up nothing, and a
// hook's periodic comes again when it is over.
func TestChecklist14OrderAndPeriodic(t *testing.T) {
	t.Parallel() // it waits more than it does
	m := newMoM(t)
	calls, until, ticks := m.path("calls"), m.path("until"), m.path("ticks")
	for i, order := range []int{700, 20, 300} {
		m.register(fmt.Sprintf("h%d", i), "execjob_begin", order,
			fmt.Sprintf("arrived = %q\n", fmt.Sprint(calls, ".", order)))
	}
	m.register("ender", "execjob_end", 900, fmt.Sprintf("arrived = %q\nuntil = %q\n", m.path("ending"), until))
	m.register("clock", "exechost_periodic", 900, fmt.Sprintf("arrived = %q\nuntil = %q\n", ticks, until), "freq=1")
	m.serve()
	j, other := pbsJob{id: "1401.pbshost", list: "ncpus=1,mem=32mb"},
		pbsJob{id: "1402.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(j)
	var stamps []int64
	for _, order := range []int{20, 300, 700} {
		var st syscall.Stat_t
		must.NoError(t, syscall.Stat(fmt.Sprint(calls, ".", order), &st))
		stamps = append(stamps, st.Mtim.Nano())
	}
	if stamps[0] > stamps[1] || stamps[1] > stamps[2] {
		t.Errorf("hooks of order 20, 300 and 700 were called at %v", stamps)
	}
	done := m.aside("execjob_end", j)
	must.Eventually(t, "an end and a periodic hang", func() bool { return exists(m.path("ending")) && exists(ticks) })
	m.begin(other)
	m.job("execjob_epilogue", other)
	select {
	case a := <-done:
		t.Errorf("the end has not waited: %+v", a)
	default:
	}
	count := func() int { b, _ := os.ReadFile(ticks); return strings.Count(string(b), "\n") }
	if n := count(); n != 1 {
		t.Errorf("%d periodics of one hook at a time", n)
	}
	must.NoError(t, os.WriteFile(until, nil, 0o600))
	if a := <-done; !a.accepted {
		t.Errorf("the end that hung: %+v", a)
	}
	must.Eventually(t, "periodics come again", func() bool { return count() >= 2 })
	m.job("execjob_end", other)
}
