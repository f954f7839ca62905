package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

func findOnce(t *testing.T, r *ranks) string {
	t.Helper()
	found, err := r.find(t.Context(), "7.srv", owner)
	if err != nil {
		t.Error(err)
	}
	var lines []string
	for _, u := range found {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d: %d %s", u.World, u.Rank, u.PID, u.Comm)))
	}
	return strings.Join(lines, "\n")
}

func TestRanksAreTheTopmostProcesses(t *testing.T) {
	m := newMachine(t)
	r := newRanks(m.procfs(), m.members, proc.NewEnvirons(m.procfs()))
	want(t, "nothing", findOnce(t, r))
	put := func(pid, ppid int, comm string, environ ...string) {
		m.process(pid, ppid, owner, comm, environ...)
		m.in[pid] = "7.srv"
	}
	put(100, 1, "mpirun", "HOME=/")
	put(101, 100, "sh", "PMI_RANK=0")
	put(102, 101, "program", "PMI_RANK=0") // inherits the variable
	put(103, 102, "child", "PMI_RANK=0")
	put(104, 100, "program", "PMI_RANK=1")
	put(110, 100, "ompi", "OMPI_COMM_WORLD_RANK=0", "PMIX_NAMESPACE=w1")
	want(t, "two programs", findOnce(t, r), "0: 101 sh", "1: 104 program", "w1 0: 110 ompi")
	put(105, 104, "late", "PMI_RANK=1")
	put(106, 104, "set", "PMI_RANK=5") // sets the variable itself
	want(t, "children", findOnce(t, r), "0: 101 sh", "1: 104 program", "5: 106 set", "w1 0: 110 ompi")
	for _, pid := range []int{101, 104} { // their children become orphans
		m.gone(pid)
		delete(m.in, pid)
	}
	want(t, "a rank that is gone stays", findOnce(t, r), "0: 101 sh", "1: 104 program", "5: 106 set", "w1 0: 110 ompi")
	put(120, 100, "again", "PMI_RANK=0")
	want(t, "another program of the same name", findOnce(t, r), "0: 120 again", "1: 104 program", "5: 106 set",
		"w1 0: 110 ompi")
	r.forgetOthers(list("8.srv"))
	if len(r.jobs) > 0 {
		t.Error("a job that is over is remembered")
	}
}

// A process that has not yet executed its program is read again.
func TestYoungRank(t *testing.T) {
	m := newMachine(t)
	r := newRanks(m.procfs(), m.members, proc.NewEnvirons(m.procfs()))
	m.process(100, 1, owner, "orted")
	m.write("100/stat", strings.Replace("100 (orted) S 1 100 100 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 START 0 0\n", "START",
		fmt.Sprint(int(proc.Age(0)/(10*time.Millisecond))), 1))
	m.in[100] = "7.srv"
	want(t, "before", findOnce(t, r))
	m.write("100/environ", "PMI_RANK=3\x00")
	want(t, "after", findOnce(t, r), "3: 100 orted")
}

// A process with the pid of an earlier one is read again.
func TestRankWithThePIDOfAnEarlierProcessIsFound(t *testing.T) {
	m := newMachine(t)
	r := newRanks(m.procfs(), m.members, proc.NewEnvirons(m.procfs()))
	m.process(100, 1, owner, "sh")
	m.in[100] = "7.srv"
	want(t, "before", findOnce(t, r))
	m.write("100/environ", "PMI_RANK=3\x00")
	want(t, "the same process", findOnce(t, r))
	m.write("100/stat", "100 (program) S 1 100 100 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 101 0 0\n")
	want(t, "another process", findOnce(t, r), "3: 100 program")
}

func TestRanksOfAJobThatCannotBeRead(t *testing.T) {
	m := newMachine(t)
	r := newRanks(m.procfs(), func(string) ([]int, error) { return nil, errors.New("broken") },
		proc.NewEnvirons(m.procfs()))
	if found, err := r.find(t.Context(), "7.srv", owner); err == nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// In user namespaces a user has thousands of uids. Environments that hang count for the job's
// owner, so no process of a further uid occupies a thread. A fifo stands for an environment that
// hangs: it is opened for writing only if somebody reads it.
func TestProcessesOfManyUIDsHangForTheOwnerOfTheirJob(t *testing.T) {
	m := newMachine(t)
	environ := func(pid int) string { return filepath.Join(m.dir, strconv.Itoa(pid), "environ") }
	asks := func(pid int) bool {
		fd, err := unix.Open(environ(pid), unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd) // ends the read
		}
		return err == nil
	}
	const some = 20
	for pid := 100; pid <= 100+some; pid++ {
		m.process(pid, 1, 100_000+pid, "program")
		must.NoError(t, os.Remove(environ(pid)))
		must.NoError(t, unix.Mkfifo(environ(pid), 0o600))
	}
	environs := proc.NewEnvirons(m.procfs())
	var reads sync.WaitGroup
	for pid := 100; pid < 100+some; pid++ {
		reads.Go(func() { environs.Read(owner, pid) })
	}
	reads.Wait()
	m.in[100+some] = "7.srv"
	want(t, "nothing is known of it", findOnce(t, newRanks(m.procfs(), m.members, environs)))
	if asks(100 + some) {
		t.Error("a process with another uid than the owner's is read nevertheless")
	}
	for pid := 100; pid < 100+some; pid++ {
		must.Eventually(t, "reads end", func() bool { return asks(pid) })
	}
}

// The test checks when a job is examined, and what is reported.
func TestPeriodicReportsRanksAndStrays(t *testing.T) {
	m := newMachine(t)
	h := &hook{policy: &policy{MPI: config.Default().MPI}, log: m.strays("").log, strays: m.strays(adoptStrays),
		ranks: newRanks(m.procfs(), m.members, proc.NewEnvirons(m.procfs()))}
	out, err := h.ExecjobBegin(t.Context(), &hostapi.Request{})
	if err != nil || out.CallAtElapsed != firstLook {
		t.Errorf("begin: %+v, %v", out, err)
	}
	periodic := func(elapsed time.Duration, partial bool) *hostapi.JobUpdate {
		t.Helper()
		jobs := list("7.srv")
		jobs["7.srv"].Elapsed = elapsed
		out, err := h.ExechostPeriodic(t.Context(),
			&hostapi.Request{Event: hostapi.EventPeriodic, JobList: jobs, Partial: partial})
		if err == nil {
			err = out.Check(hostapi.EventPeriodic)
		}
		must.NoError(t, err)
		return out.Jobs["7.srv"]
	}
	if u := periodic(time.Second, true); u != nil { // a report: the requested call is still to come
		t.Errorf("early: %+v", u)
	}
	if u := periodic(firstLook, true); u == nil || u.CallAtElapsed != secondLook {
		t.Errorf("nothing was there: %+v", u)
	}
	if u := periodic(secondLook, true); u != nil {
		t.Errorf("nor later: %+v", u)
	}
	m.process(100, 1, owner, "program", "PMI_RANK=2")
	m.in[100] = "7.srv"
	m.process(101, 1, owner, "daemon", "PBS_JOBID=7.srv")
	u := periodic(firstLook, false)
	want := []hostapi.RankUsage{{Rank: 2, PID: 100, Comm: "program"}}
	if u == nil || u.CallAtElapsed != 0 || !slices.Equal(u.Usage.Ranks, want) || len(u.Strays) != 1 {
		t.Errorf("%+v", u)
	}
	h.ranks = nil
	if out, err := h.ExecjobBegin(t.Context(), &hostapi.Request{}); err != nil || out.CallAtElapsed != 0 {
		t.Errorf("begin with per_task: %+v, %v", out, err)
	}
	if u := periodic(firstLook, true); u != nil {
		t.Errorf("with per_task: %+v", u)
	}
}
