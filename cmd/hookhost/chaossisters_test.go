package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// sistersPlan is what a test of faults between two hosts does. Jobs and faults come one after the
// other, and side by side.
type sistersPlan struct {
	seed  uint64
	brief bool
}

// spreadPlan is a job on two hosts.
type spreadPlan struct {
	id     string
	lasts  time.Duration
	status int
	kill   bool // run is killed
}

// The faults of the link between two hosts, and of their daemons.
const (
	linkDown    = "link down"
	linkSlow    = "link slow"
	linkStalled = "link stalled"
	hostStops   = "SIGSTOP daemon"
	hostDies    = "SIGKILL daemon"
)

var linkFaults = []string{linkDown, linkSlow, linkStalled, hostStops, hostDies}

// linkFault is a fault of the host with that index.
type linkFault struct {
	kind          string
	host          int
	before, lasts time.Duration
}

func (p sistersPlan) job(lane, number int) spreadPlan {
	r := rand.New(rand.NewPCG(p.seed, uint64(lane)<<32|uint64(number)))
	return spreadPlan{id: fmt.Sprintf("%d.n1", 2*number+lane+1), lasts: time.Duration(r.IntN(2000)) * time.Millisecond,
		status: r.IntN(100), kill: r.IntN(5) == 0}
}

// fault plans a fault. All kinds come on each host before one comes again.
func (p sistersPlan) fault(number int) linkFault {
	all := 2 * len(linkFaults)
	pick := rand.New(rand.NewPCG(p.seed, 1<<40|uint64(number/all))).Perm(all)[number%all]
	r := rand.New(rand.NewPCG(p.seed, 1<<41|uint64(number)))
	most := 6000
	if p.brief {
		most = 300
	}
	return linkFault{kind: linkFaults[pick/2], host: pick % 2, before: time.Duration(r.IntN(most/2)) * time.Millisecond,
		lasts: time.Duration(r.IntN(most)) * time.Millisecond}
}

func TestPlanOfLinkFaultsFollowsFromItsSeedAndHasEachKind(t *testing.T) {
	p, again := sistersPlan{seed: 1}, sistersPlan{seed: 1}
	var jobs, others []spreadPlan
	kinds := map[string]int{}
	for i := range 2 * len(linkFaults) {
		jobs, others = append(jobs, p.job(i%2, i/2)), append(others, sistersPlan{seed: 2}.job(i%2, i/2))
		if again.job(i%2, i/2) != jobs[i] || again.fault(i) != p.fault(i) {
			t.Error("one seed, two plans")
		}
		kinds[fmt.Sprint(p.fault(i).kind, p.fault(i).host)]++
	}
	if reflect.DeepEqual(jobs, others) {
		t.Error("two seeds, one plan")
	}
	if len(kinds) != 2*len(linkFaults) {
		t.Errorf("kinds of faults: %v", kinds)
	}
}

// sisters are two hosts of a laboratory that reach one another by relays.
type sisters struct {
	*lab
	*incidents
	relays []*relay
	mark   string // an argument of the jobs' programs

	mu   sync.Mutex
	ends map[string]int
}

func newSisters(t *testing.T) *sisters {
	const port = 15040
	s := &sisters{incidents: newIncidents(t), ends: map[string]int{}, mark: fmt.Sprintf("1000.%d", os.Getpid())}
	s.lab = newLab(t, 2, func(h *labHost) string {
		if len(s.relays) == 0 {
			h.lab.hub.must("ip", "addr", "add", relays+"/24", "dev", "sw")
			for i := range 2 {
				s.relays = append(s.relays, h.lab.newRelay(port+i, fmt.Sprintf("10.211.0.%d:15020", i+1)))
			}
		}
		hosts := fmt.Sprintf("hosts = { n1 = '%s:%d', n2 = '%s:%d' }\n", relays, port, relays, port+1)
		return strings.Replace(together(h), "[series]", hosts+"[series]", 1)
	})
	return s
}

// TestNothingIsLeftOnSistersUnderFaults has jobs on two hosts. The link between them fails, and so
// do their daemons. A job that begins ends with its status, and is in the first host's ledger once.
// Nothing of a job is left on either host once they reach one another. No program of a job is ever
// outside of its cgroup.
func TestNothingIsLeftOnSistersUnderFaults(t *testing.T) {
	seed, long := setting(t, "HOOKHOST_SEED", rand.Uint64N(1_000_000)), chaosTime(t)
	plan := sistersPlan{seed: seed, brief: long == 0}
	if long > 0 {
		t.Parallel()
	}
	t.Logf("HOOKHOST_SEED=%d HOOKHOST_CHAOS=%v", seed, long)
	s := newSisters(t)
	goesOn := whileLong(t, long)
	var jobs sync.WaitGroup
	var begun sync.Map // by job id: its program has started
	for lane := range 2 {
		jobs.Go(func() {
			for number := 0; plan.brief && number < 2 || goesOn(); number++ {
				if job := plan.job(lane, number); s.carryOut(job) {
					begun.Store(job.id, true)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { jobs.Wait(); close(over) }()
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(over) })
	for number := 0; ; number++ {
		select {
		case <-over:
		case <-time.After(plan.fault(number).before):
			s.bring(plan.fault(number))
			continue
		}
		break
	}
	watching.Wait()
	s.nothingIsLeft(t)
	for _, pid := range processesNamed("sleep", s.mark) {
		s.wrong("a program outlives its job: %s", describe([]int{pid}))
	}
	reports := s.hosts[0].node.reported()
	begun.Range(func(id, _ any) bool {
		if n := reports[id.(string)]; n != 1 {
			s.wrong("job %s is in the ledger %d times", id, n)
		}
		return true
	})
	t.Logf("jobs:\n%sfaults:\n%sviolations: %d", table(s.ends), table(s.faults), s.violations)
}

// carryOut runs a job to its end, and reports whether its program has started. A job may be refused
// while its hosts do not reach one another.
func (s *sisters) carryOut(plan spreadPlan) (started bool) {
	first := s.hosts[0]
	file := s.path("home/started." + plan.id)
	remsh := filepath.Join(built, "hookhost-remsh") + " n2 sleep " + s.mark + " >/dev/null 2>&1 &"
	job := s.spread(plan.id, "2:ncpus=1:mem=50mb", "sh", "-c",
		fmt.Sprintf(": > %s; sleep %s & %s sleep %.3f; exit %d", file, s.mark, remsh, plan.lasts.Seconds(),
			plan.status))
	began := time.Now()
	var struck atomic.Bool
	kill := time.AfterFunc(plan.lasts/2, func() {
		for _, pid := range processesNamed(first.hookhost(job.args...)...) {
			if plan.kill {
				struck.Store(true)
				send(pid, syscall.SIGKILL)
			}
		}
	})
	defer kill.Stop()
	err := job.cmd.Run()
	started = exists(file)
	end, status := endsItself, job.cmd.ProcessState.ExitCode()
	switch {
	case struck.Load():
		end = "by SIGKILL of run"
	case status == 125 && !started && s.excuses(began):
		end = "sent back"
		time.Sleep(300 * time.Millisecond)
	case status != plan.status:
		s.wrong("job %s: %v, want %d: %s", plan.id, err, plan.status, job.stderr.Bytes())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[end]++
	return started
}

// watch looks for programs of jobs outside of all jobs' cgroups.
func (s *sisters) watch(over <-chan struct{}) {
	outside := map[int]bool{}
	for {
		for _, pid := range processesNamed("sleep", s.mark) {
			text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
			if in := cgroupOf(string(text), "memory"); err == nil && !strings.Contains(in, "/job") && !outside[pid] &&
				slices.Contains(processesNamed("sleep", s.mark), pid) { // and has not just ended
				s.wrong("outside of its cgroup: %s", describe([]int{pid}))
				outside[pid] = true
			}
		}
		select {
		case <-over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// bring carries out one fault.
func (s *sisters) bring(fault linkFault) {
	host := s.hosts[fault.host]
	s.count(fault.kind + " " + host.name)
	defer s.excuse(false)()
	switch fault.kind {
	case linkDown:
		mend := host.cut()
		time.Sleep(fault.lasts)
		mend()
		time.Sleep(3 * time.Second) // a host that got no ARP answer is unreachable for so long
	case linkSlow, linkStalled:
		delay := fault.lasts / 10
		if fault.kind == linkStalled {
			delay = fault.lasts
		}
		s.relays[fault.host].delay.Store(int64(delay))
		time.Sleep(fault.lasts)
		s.relays[fault.host].delay.Store(0)
		time.Sleep(delay) // of what was read before
	case hostStops:
		for _, pid := range processesNamed(host.hookhost("serve")...) {
			send(pid, syscall.SIGSTOP)
			time.Sleep(fault.lasts)
			send(pid, syscall.SIGCONT)
			send(parentOf(pid), syscall.SIGCONT) // nsenter stops with its child
		}
	case hostDies:
		host.killDaemon()
		time.Sleep(fault.lasts)
		host.serve()
	}
}
