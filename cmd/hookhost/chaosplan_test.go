package main_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// chaosPlan is what a test of faults does: jobs in lanes that go side by side, and troubles of the
// node, one after the other. Each job and each trouble follows from the seed, its number and the
// plan's other fields alone, so that a plan has no end.
type chaosPlan struct {
	seed   uint64
	server string // in the job's ids: two tests at a time have TMPDIRs of their own
	cpus   int    // of the node
	brief  bool   // for seconds: nothing in it is long
}

// lanes is how many jobs there are at a time.
const lanes = 5

// plannedJob is one job with what is done to programs while it is carried out.
type plannedJob struct {
	id     string
	cpus   int
	fpgas  int
	byRun  bool // hookhost run is the job's MoM, else the test is
	forks  bool // a process of it makes others all the time
	ends   string
	status int // of a program that ends by itself
	steps  []plannedStep
}

// The ways in which jobs end.
const (
	endsItself   = "by itself"
	endsByMemory = "out of memory"
	endsByTime   = "over walltime"
	endsByOther  = "by somebody"
)

// plannedStep is a step of a job's life, and what is done to programs meanwhile.
type plannedStep struct {
	name    string
	pause   time.Duration // after the step
	strikes []plannedStrike
}

// plannedStrike is a signal to a program.
type plannedStrike struct {
	after  time.Duration // since the step began
	victim string
	means  string
	down   time.Duration // until somebody starts the daemon again
	rest   time.Duration // from SIGSTOP to SIGCONT
}

// The victims that are no hook.
const (
	victimDaemon = "daemon"
	victimRun    = "run"
)

var victimHooks = []string{"cgroup", "devices", "mpi", "walltime"}

// The means. A stall is a SIGSTOP for longer than an alarm.
const (
	byKill  = "SIGKILL"
	byTerm  = "SIGTERM"
	byStop  = "SIGSTOP"
	byStall = "SIGSTOP beyond the alarm"
)

// oomStatus and termStatus are exit statuses of programs that signals have ended, as a shell has
// them.
const (
	oomStatus  = 128 + 9
	termStatus = 128 + 15
)

// statuses are those with which the job's program may end.
func (j *plannedJob) statuses() []int {
	switch j.ends {
	case endsByMemory:
		return []int{oomStatus}
	case endsByTime:
		return []int{termStatus}
	case endsByOther:
		if !j.byRun { // by the epilogue
			return []int{oomStatus}
		}
		return []int{termStatus}
	}
	return []int{j.status}
}

func (p chaosPlan) random(stream, number int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, uint64(stream)<<32|uint64(number)))
}

// job plans a job of a lane. The jobs of the first two lanes take all cpus and devices of the node.
// A cpu that a job did not give back is missed then. The other jobs take none.
func (p chaosPlan) job(lane, number int) *plannedJob {
	r := p.random(lane, number)
	job := &plannedJob{
		id: fmt.Sprintf("%d.%s", number*lanes+lane+1, p.server), byRun: r.IntN(2) == 0, forks: r.IntN(3) == 0,
		status: r.IntN(100), ends: endsItself,
	}
	switch lane {
	case 0:
		job.cpus, job.fpgas = (p.cpus+1)/2, 1
	case 1:
		job.cpus, job.fpgas = p.cpus/2, 1
	}
	if way := r.IntN(10); way < 4 {
		job.ends = []string{endsByMemory, endsByMemory, endsByTime, endsByOther}[way]
		job.byRun = job.byRun || job.ends == endsByTime // pbs_mom ends its jobs itself then
	}
	first, last := []string{"begin", "prologue", "launch"}, []string{"exit", "epilogue", "end"}
	middle := []string{"attach", "suspend", "resize"}
	switch {
	case job.byRun:
		first, last, middle = []string{"start"}, []string{"exit"}, []string{"attach", "suspend"}
	case job.ends == endsByOther:
		last = []string{"preterm", "epilogue", "end"}
	}
	if job.ends == endsByTime { // its time is short
		middle = nil
	}
	r.Shuffle(len(middle), func(i, j int) { middle[i], middle[j] = middle[j], middle[i] })
	for _, name := range slices.Concat(first, middle[:r.IntN(len(middle)+1)], last) {
		job.steps = append(job.steps, plannedStep{name: name, pause: time.Duration(r.IntN(200)) * time.Millisecond})
		if name == "suspend" {
			job.steps = append(job.steps, plannedStep{name: "resume"})
		}
	}
	mayRun := job.byRun
	for range r.IntN(6) {
		step := &job.steps[r.IntN(len(job.steps))]
		strike := p.strike(r, mayRun)
		mayRun = mayRun && strike.victim != victimRun
		step.strikes = append(step.strikes, strike)
	}
	return job
}

// strike picks a victim and a means. A step takes some 10 ms, so most strikes come within the first
// 30.
func (p chaosPlan) strike(r *rand.Rand, mayRun bool) plannedStrike {
	strike := plannedStrike{after: time.Duration(r.IntN(30_000)) * time.Microsecond, means: byKill}
	if r.IntN(4) == 0 {
		strike.after *= 10
	}
	switch at := r.IntN(10); {
	case at == 0 && mayRun:
		strike.victim = victimRun
		return strike
	case at < 4:
		strike.victim = victimDaemon
		strike.down = time.Duration(r.IntN(300)) * time.Millisecond
	default:
		strike.victim = victimHooks[r.IntN(len(victimHooks))]
	}
	switch at := r.IntN(40); {
	case at == 0 && !p.brief:
		strike.means = byStall
	case at < 8:
		strike.means, strike.rest = byStop, time.Duration(r.IntN(1000))*time.Millisecond
	case at < 14:
		strike.means = byTerm
	}
	return strike
}

// plannedTrouble is a fault of the node.
type plannedTrouble struct {
	kind   string
	before time.Duration // since the last one
	lasts  time.Duration
	pick   uint64 // among the controllers, jobs and bytes that it may be about
	strike bool   // the daemon is killed meanwhile
}

// The kinds of trouble.
const (
	stateFull  = "full disk: state"
	liveFull   = "full disk: live files"
	bothFull   = "full disk: both"
	readOnly   = "cgroups read-only"
	noCgroups  = "no more cgroups"
	recordHarm = "damaged record"
	seriesHarm = "damaged series"
	nodeHarm   = "damaged node state"
	reportTorn = "unfinished report"
	reportHarm = "damaged report"
)

var troubles = []string{stateFull, liveFull, bothFull, readOnly, noCgroups, recordHarm, seriesHarm, nodeHarm,
	reportTorn, reportHarm}

// trouble plans a trouble. All kinds come before one comes again.
func (p chaosPlan) trouble(number int) plannedTrouble {
	round := p.random(-1, number/len(troubles)).Perm(len(troubles))
	r := p.random(-2, number)
	most := 4000
	if p.brief {
		most = 200
	}
	return plannedTrouble{
		kind: troubles[round[number%len(troubles)]], before: time.Duration(r.IntN(most)) * time.Millisecond,
		lasts: time.Duration(r.IntN(most)) * time.Millisecond, pick: r.Uint64(), strike: r.IntN(3) == 0,
	}
}

// A plan is the same for the same seed, and another one for another seed.
func TestPlanOfFaultsFollowsFromItsSeed(t *testing.T) {
	all := func(seed uint64) (jobs []*plannedJob, troubles []plannedTrouble) {
		p := chaosPlan{seed: seed, server: "chaos", cpus: 3}
		for i := range 50 {
			jobs = append(jobs, p.job(i%lanes, i/lanes))
			troubles = append(troubles, p.trouble(i))
		}
		return jobs, troubles
	}
	jobs, faults := all(1)
	if again, same := all(1); !reflect.DeepEqual(jobs, again) || !reflect.DeepEqual(faults, same) {
		t.Error("one seed, two plans")
	}
	if other, others := all(2); reflect.DeepEqual(jobs, other) || reflect.DeepEqual(faults, others) {
		t.Error("two seeds, one plan")
	}
}

// A plan of some length has each victim, means, trouble and end of a job. Its first two jobs take
// all cpus of the node. A brief plan stops nothing beyond the alarm.
func TestPlanOfFaultsHasEachKind(t *testing.T) {
	count := func(p chaosPlan) map[string]int {
		kinds := map[string]int{}
		for i := range 500 {
			job := p.job(i%lanes, i/lanes)
			kinds[job.ends]++
			for _, step := range job.steps {
				kinds[step.name]++
				for _, strike := range step.strikes {
					kinds[strike.victim]++
					kinds[strike.means]++
				}
			}
			kinds[p.trouble(i).kind]++
		}
		return kinds
	}
	long := count(chaosPlan{seed: 1, cpus: 3})
	for _, kind := range slices.Concat(troubles, victimHooks, []string{victimDaemon, victimRun, byKill, byTerm, byStop,
		byStall, endsItself, endsByMemory, endsByTime, endsByOther, "attach", "suspend", "resume", "resize",
		"preterm"}) {
		if long[kind] == 0 {
			t.Errorf("no %q", kind)
		}
	}
	brief := chaosPlan{seed: 1, cpus: 3, brief: true}
	if n := count(brief)[byStall]; n > 0 {
		t.Errorf("a brief plan: %d stalls", n)
	}
	if a, b := brief.job(0, 7).cpus, brief.job(1, 7).cpus; a+b != 3 {
		t.Errorf("the lanes that take cpus: %d and %d, want 3 together", a, b)
	}
}
