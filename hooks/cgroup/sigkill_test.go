package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// unitsOfMem is the amount that the jobs of TestAnswersOutliveSIGKILL share; each requests part of
// it.
const unitsOfMem = 100

var sigkills = flag.Int("sigkill.times", 40, "how often TestAnswersOutliveSIGKILL kills the hook")

func shareMem(c *config.File) { c.Memory.ReservePercent, c.Cpuset.AllowZeroCPUs = 0, true }

// A hook is killed at random moments while it begins, resizes and ends 50 jobs. The next hook finds
// each job with the size of the last answer, or with that of the event that got no answer. No two
// jobs hold the same memory.
func TestAnswersOutliveSIGKILL(t *testing.T) {
	n := realNode(t, shareMem)
	unit := n.policy.memTotal(n.node()) / unitsOfMem >> 20 << 20
	answered := map[string]int64{} // bytes by live job
	for range *sigkills {
		n.hook.die()
		unsure := killedHook(t, n, unit, answered)
		n.jobs = running(answered)
		n.hook = n.boot()
		n.do(hostapi.EventStartup, "")
		n.background.Wait()
		checkAnswers(t, n, answered, unsure)
		n.jobs = running(answered)
	}
	if len(answered) == 0 {
		t.Errorf("no job lives after %d kills", *sigkills)
	}
}

func running(jobs map[string]int64) map[string]*hostapi.Job {
	list := map[string]*hostapi.Job{}
	for id := range jobs {
		list[id] = &hostapi.Job{ID: id, Phase: hostapi.PhaseRunning}
	}
	return list
}

// killedHook starts a hook that handles events of jobs until it is killed. It updates answered.
// unsure has the jobs whose last event was not answered, with the size that the event requested.
func killedHook(t *testing.T, n *node, unit int64, answered map[string]int64) (unsure map[string]int64) {
	t.Helper()
	var has []string
	for id, mem := range answered {
		has = append(has, fmt.Sprintf("%s=%d", id, mem))
	}
	service := path.Base(path.Dir(path.Dir(n.cgroup("1.srv").MemoryPath())))
	cmd := exec.Command("/proc/self/exe", actorArg, "hook", strings.TrimSuffix(service, ".service"), fmt.Sprint(unit),
		strings.Join(has, ","))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready") {
		t.Fatalf("the hook does not start: %q", lines.Text())
	}
	kill.Reset(time.Duration(rand.IntN(200_000)) * time.Microsecond)
	unsure = map[string]int64{}
	for lines.Scan() {
		var what, id string
		var mem int64
		if _, err := fmt.Sscan(lines.Text(), &what, &id, &mem); err != nil {
			t.Errorf("%q: %v", lines.Text(), err)
		}
		switch what {
		case "sends":
			unsure[id] = mem
		case "refused":
			delete(unsure, id)
		case "answered":
			delete(unsure, id)
			if answered[id] = mem; mem == 0 {
				delete(answered, id)
			}
		}
	}
	cmd.Wait() // killed
	return unsure
}

// checkAnswers compares the kernel with the answers.
func checkAnswers(t *testing.T, n *node, answered, unsure map[string]int64) {
	t.Helper()
	ids, err := n.tree.JobIDs()
	must.NoError(t, err)
	total := int64(0)
	for _, id := range ids {
		_, began := answered[id]
		_, err := n.cgroup(id).JobMark()
		if errors.Is(err, unix.ENODATA) && !began { // the hook died right after mkdir, and the host ends the job
			n.do(hostapi.EventEnd, id)
			continue
		}
		must.NoError(t, err)
		l, err := n.cgroup(id).Limits("memory")
		must.NoError(t, err)
		if l.Mem == nil {
			t.Fatalf("job %s has no limit of memory", id)
		}
		was, lived := answered[id]
		coming, open := unsure[id]
		if open && coming == 0 { // its end is repeated; meanwhile another job may have its place
			n.do(hostapi.EventEnd, id)
			delete(answered, id)
			continue
		}
		if !(lived && *l.Mem == was) && !(open && *l.Mem == coming) {
			t.Errorf("job %s has %d bytes; %d was answered, and %d was asked for without an answer: %t",
				id, *l.Mem, was, coming, open)
		}
		answered[id], total = *l.Mem, total+*l.Mem
	}
	for id := range answered {
		if coming, open := unsure[id]; !slices.Contains(ids, id) {
			if !open || coming != 0 {
				t.Errorf("job %s has no cgroup", id)
			}
			delete(answered, id)
		}
	}
	if all := n.policy.memTotal(n.node()); total > all {
		t.Errorf("jobs hold %d bytes of %d", total, all)
	}
}

// actHook plays a hook that handles events until it is killed. For each job it prints what is sent
// and what was answered.
func actHook(prefix, unitText, has string) error {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return err
	}
	p, err := newPolicy(nil)
	if err != nil {
		return err
	}
	shareMem(&p.File)
	log := logrus.New()
	log.SetLevel(logrus.FatalLevel)
	h, err := open(p, roots, cgroup.Options{Prefix: prefix, Controllers: p.Placing()}, logrus.NewEntry(log))
	if err != nil {
		return err
	}
	unit, err := strconv.ParseInt(unitText, 10, 64)
	if err != nil {
		return err
	}
	live := map[string]int64{}
	for job := range strings.SplitSeq(has, ",") {
		if id, mem, ok := strings.Cut(job, "="); ok {
			if live[id], err = strconv.ParseInt(mem, 10, 64); err != nil {
				return err
			}
		}
	}
	ctx := context.Background()
	if _, err := h.ExechostStartup(ctx, &hostapi.Request{Event: hostapi.EventStartup, Node: testNode,
		JobList: running(live)}); err != nil {
		return err
	}
	fmt.Println("ready 0 0")
	const workers = 4
	var wait sync.WaitGroup
	for w := range workers {
		mine := map[string]int64{}
		for i := w; i < 50; i += workers {
			id := fmt.Sprintf("%d.srv", i)
			mine[id] = live[id]
		}
		wait.Go(func() {
			for {
				for id, has := range mine {
					mine[id] = actEvent(ctx, h, id, has, unit)
				}
			}
		})
	}
	wait.Wait()
	return nil
}

// actEvent begins a job that has nothing, and resizes or ends any other. It returns what the job
// has afterwards.
func actEvent(ctx context.Context, h *hook, id string, has, unit int64) int64 {
	mem := unit * int64(1+rand.IntN(8))
	job := &hostapi.Job{ID: id, ResourceList: hostapi.Resources{"ncpus": "0", "mem": fmt.Sprintf("%db", mem)}}
	req := &hostapi.Request{Node: testNode, Job: job}
	event, send := hostapi.EventBegin, h.ExecjobBegin
	switch {
	case has > 0 && rand.IntN(2) == 0:
		event, send = hostapi.EventResize, h.ExecjobResize
	case has > 0:
		event, send, mem = hostapi.EventEnd, h.ExecjobEnd, 0
	}
	req.Event = event
	fmt.Printf("sends %s %d\n", id, mem)
	out, err := send(ctx, req)
	if err != nil || out.Reject {
		fmt.Printf("refused %s %d\n", id, mem)
		return has
	}
	fmt.Printf("answered %s %d\n", id, mem)
	return mem
}
