package main_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// killPlan is what a test of kills does: the jobs of each lane come one after the other, and the
// lanes go side by side. A plan follows from its seed and its sizes alone.
type killPlan struct {
	lanes [][]*plannedJob
}

// plannedJob is one job with the kills that come while it is carried out.
type plannedJob struct {
	id     string
	cpus   int
	byRun  bool // hookhost run is the job's MoM, else the test is
	eats   bool // the program ends as it exceeds the job's memory, else with status
	status int
	steps  []plannedStep
}

// plannedStep is a step of a job's life, and what is killed meanwhile.
type plannedStep struct {
	name  string
	pause time.Duration // after the step
	kills []plannedKill
}

// plannedKill is a SIGKILL.
type plannedKill struct {
	after  time.Duration // since the step began
	victim string
	down   time.Duration // until somebody starts the daemon again
}

// The victims that are no hook.
const (
	victimDaemon = "daemon"
	victimRun    = "run"
)

var victimHooks = []string{"cgroup", "devices", "mpi", "walltime"}

// oomStatus is the exit status of a program that the kernel killed, as a shell has it.
const oomStatus = 128 + 9

// ends returns the exit status with which the job's program ends by itself.
func (j *plannedJob) ends() int {
	if j.eats {
		return oomStatus
	}
	return j.status
}

// planKills plans so many jobs and kills. The jobs of the first lane take all cpus of the node, so
// that a cpu that no job gave back is missed. The other jobs take none.
func planKills(seed uint64, jobs, kills, cpus int) *killPlan {
	r := rand.New(rand.NewPCG(seed, 0))
	plan := &killPlan{lanes: make([][]*plannedJob, min(5, jobs))}
	var all []*plannedJob
	for i := range jobs {
		lane := i % len(plan.lanes)
		job := planJob(r, fmt.Sprintf("%d.kills", i+1))
		if lane == 0 {
			job.cpus = cpus
		}
		all = append(all, job)
		plan.lanes[lane] = append(plan.lanes[lane], job)
	}
	killed := map[*plannedJob]bool{}
	for range kills {
		job := all[r.IntN(len(all))]
		step := &job.steps[r.IntN(len(job.steps))]
		kill := planKill(r, job.byRun && !killed[job])
		killed[job] = killed[job] || kill.victim == victimRun
		step.kills = append(step.kills, kill)
	}
	return plan
}

func planJob(r *rand.Rand, id string) *plannedJob {
	job := &plannedJob{id: id, byRun: r.IntN(2) == 0, eats: r.IntN(5) == 0, status: r.IntN(100)}
	first, last := []string{"begin", "prologue", "launch"}, []string{"exit", "epilogue", "end"}
	middle := []string{"attach", "suspend", "resize"}
	if job.byRun {
		first, last, middle = []string{"start"}, []string{"exit"}, []string{"attach", "suspend"}
	}
	r.Shuffle(len(middle), func(i, j int) { middle[i], middle[j] = middle[j], middle[i] })
	for _, name := range slices.Concat(first, middle[:r.IntN(len(middle)+1)], last) {
		job.steps = append(job.steps, plannedStep{name: name, pause: time.Duration(r.IntN(200)) * time.Millisecond})
		if name == "suspend" {
			job.steps = append(job.steps, plannedStep{name: "resume"})
		}
	}
	return job
}

// planKill picks a victim. A step takes some 10 ms, so most kills come within the first 30.
func planKill(r *rand.Rand, mayRun bool) plannedKill {
	kill := plannedKill{after: time.Duration(r.IntN(30_000)) * time.Microsecond}
	if r.IntN(4) == 0 {
		kill.after *= 10
	}
	switch at := r.IntN(10); {
	case at == 0 && mayRun:
		kill.victim = victimRun
	case at < 4:
		kill.victim = victimDaemon
		kill.down = time.Duration(r.IntN(300)) * time.Millisecond
	default:
		kill.victim = victimHooks[r.IntN(len(victimHooks))]
	}
	return kill
}
