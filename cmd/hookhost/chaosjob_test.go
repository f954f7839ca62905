package main_test

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// liveJob is a planned job that is being carried out.
type liveJob struct {
	*plannedJob
	w       *wreck
	strikes sync.WaitGroup

	striking sync.Mutex // held while hookhost run is started or killed

	pid     atomic.Int64 // hookhost run, or the job's leader; 0 before its start
	struck  atomic.Bool  // somebody has killed hookhost run
	limited atomic.Bool  // its limits are to be in force
	resized atomic.Bool  // they are those of its resize
	began   time.Time    // when the first step was taken
	begun   bool         // the program has started
	refused bool         // an event of it was rejected
	back    bool         // it was sent back: a trouble of the node has kept it from starting
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	exited  chan struct{} // closed once cmd has ended

	attached *exec.Cmd
	reaped   chan struct{} // closed once attached has ended
}

// payload is the program of a job: a shell with children in its own session and in others. The
// shell ends when it is told to, with a status or by eating memory, or sleeps until somebody ends
// it.
func (j *liveJob) payload() string {
	end := fmt.Sprint("exit ", j.status)
	switch j.ends {
	case endsByMemory:
		end = "exec tail /dev/zero"
	case endsByTime, endsByOther:
		end = "exec sleep 1000"
	}
	others := "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &)\n"
	if j.forks {
		pause := "0.05"
		if inGuest() {
			pause = "1" // on an emulated cpu, more forks leave no time for the rest
		}
		others += "setsid sh -c 'while :; do for i in 1 2 3 4 5 6 7 8; do sleep " + pause + " & done; wait; done' &\n"
	}
	return others + ": > " + j.startedFile() + "\nread x\n" + end
}

func (j *liveJob) startedFile() string { return j.w.path("started." + j.id) }

// marked is a command line whose process and descendants bear the job's mark.
func (j *liveJob) marked(args ...string) []string {
	return append([]string{"env", j.w.mark(j.id)}, args...)
}

// carryOut walks the job through its steps, and returns what went other than planned.
func (j *liveJob) carryOut() error {
	defer j.strikes.Wait()
	defer func() {
		if j.attached != nil { // no process that has outlived its job is to stay
			j.attached.Process.Kill()
			<-j.reaped
		}
	}()
	j.began = time.Now()
	for _, step := range j.steps {
		if j.back && step.name != "end" {
			continue
		}
		for _, strike := range step.strikes {
			j.strikes.Go(func() { j.w.strike(strike, j) })
		}
		began := time.Now()
		err := j.do(step.name)
		if j.struck.Load() {
			j.limited.Store(false)
			return j.isGone()
		}
		if err != nil && j.mayFail(step.name, began, err) {
			j.refused = true
			j.putUp(step.name)
			err = nil
		}
		if err != nil {
			j.giveUp()
			return fmt.Errorf("%s: %w", step.name, err)
		}
		j.w.inspect(j)
		time.Sleep(step.pause)
	}
	j.strikes.Wait()
	j.limited.Store(false)
	if j.struck.Load() && j.cmd.ProcessState.Exited() { // the kill came too late
		j.struck.Store(false)
	}
	if j.refused || j.byRun && j.w.excuses(j.began) { // run has told the node of its end alone
		return j.isGone()
	}
	return j.check()
}

// mayFail reports whether the node may fail in this way at a step that began then. A node in
// trouble may reject an event, and it may leave a run going that is to stop. Nothing that was
// accepted may fail. A record that was damaged is made anew, as of a job that runs.
func (j *liveJob) mayFail(step string, began time.Time, err error) bool {
	switch {
	case step == "begin" && errors.Is(err, errBusy):
		return true
	case step == "start" && j.wasRefused() && strings.Contains(j.stderr(), isHere):
		return j.w.isHarmed(j.id)
	case !j.w.excuses(began):
		return false
	case step == "resume" || step == "resize" || step == "exit":
		return false
	case step == "suspend" && j.byRun:
		return errors.Is(err, errLate)
	case step == "start":
		return j.wasRefused()
	}
	return errors.Is(err, errRejected)
}

// wasRefused reports whether hookhost run has ended since its job was rejected.
func (j *liveJob) wasRefused() bool {
	select {
	case <-j.exited:
		return j.cmd.ProcessState.ExitCode() == 125 && !exists(j.startedFile())
	default:
		return false
	}
}

// metNoDaemon reports whether hookhost run has ended since no daemon was there for a moment.
func (j *liveJob) metNoDaemon() bool {
	return j.wasRefused() && strings.Contains(j.stderr(), "no daemon runs")
}

// putUp does what a MoM does when a node in trouble rejects an event. A job that does not start is
// sent back. The node hears of each end once, and has to finish it by itself.
func (j *liveJob) putUp(step string) {
	switch step {
	case "start", "begin", "prologue", "launch":
		j.back = true
		j.limited.Store(false)
		if j.exited != nil {
			j.signal(syscall.SIGKILL)
			<-j.exited
		}
	}
}

// do carries out one step.
func (j *liveJob) do(step string) error {
	switch step {
	case "start":
		args := []string{"run", "--job", j.id, "-l", j.chunk(), "-l", "pids=64", "--report=none"}
		if j.ends == endsByTime {
			args = append(args, "-l", "walltime=2")
		}
		args = append(append(args, "--"), j.marked("sh", "-c", j.payload())...)
		for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if started, err := j.startRun(args); err != nil || !started {
				return err
			}
			err := j.starts()
			if err == nil || !j.metNoDaemon() || time.Now().After(until) {
				return err
			}
		}
	case "launch":
		args := append([]string{"sh", "-c", `read x; exec "$@"`, "sh"}, j.marked("sh", "-c", j.payload())...)
		leader := exec.Command(args[0], args[1:]...)
		leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := j.start(leader); err != nil {
			return err
		}
		if err := j.event("execjob_launch"); err != nil {
			return err
		}
		fmt.Fprintln(j.stdin)
		return j.starts()
	case "attach":
		return j.attach()
	case "suspend":
		if !j.byRun {
			return j.event("execjob_postsuspend")
		}
		j.signal(syscall.SIGTSTP)
		return j.await("run stops", func() bool { return state(int(j.pid.Load())) == "T" })
	case "resume":
		if !j.byRun {
			return j.insist("execjob_preresume")
		}
		j.signal(syscall.SIGCONT)
		return j.await("the job goes on", func() bool {
			phases, _ := j.w.phases()
			return phases[j.id] == "running"
		})
	case "exit":
		j.limited.Store(false)
		fmt.Fprintln(j.stdin)
		if j.ends == endsByOther {
			return j.terminate()
		}
		return j.ended()
	case "preterm":
		fmt.Fprintln(j.stdin)
		return j.event("execjob_preterm")
	case "begin":
		err := j.event("execjob_begin")
		j.limited.Store(err == nil)
		return err
	case "resize":
		j.limited.Store(false)
		err := j.insist("execjob_resize")
		j.resized.Store(err == nil)
		j.limited.Store(err == nil)
		return err
	case "epilogue":
		j.limited.Store(false)
		err := j.event("execjob_epilogue")
		if err == nil && j.ends == endsByOther {
			err = j.ended()
		}
		return err
	case "end":
		if j.back {
			step = "abort"
		}
	}
	return j.event("execjob_" + step)
}

// terminate ends hookhost run as scancel or qdel does. A node in trouble may refuse that, and is
// asked again then.
func (j *liveJob) terminate() error {
	began := time.Now()
	for j.signal(syscall.SIGTERM) {
		select {
		case <-j.exited:
			return j.ended()
		case <-time.After(20 * time.Second):
			if !j.w.excuses(began) {
				return errors.New("not in time: run ends by SIGTERM")
			}
		}
	}
	return j.ended()
}

// insist sends an event until it is accepted, as long as troubles excuse that it is not.
func (j *liveJob) insist(name string) error {
	for {
		began := time.Now()
		err := j.event(name)
		if err == nil || !j.w.excuses(began) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (j *liveJob) chunk() string {
	chunk := fmt.Sprintf("select=1:ncpus=%d:mem=64mb", j.cpus)
	if j.fpgas > 0 {
		chunk += fmt.Sprintf(":fpga=%d", j.fpgas)
	}
	return chunk
}

// giveUp ends a job that did not go as planned, so that the others can go on.
func (j *liveJob) giveUp() {
	if j.exited != nil {
		j.signal(syscall.SIGKILL)
		<-j.exited
	}
	if !j.byRun {
		j.event("execjob_abort")
		j.event("execjob_end")
	}
}
