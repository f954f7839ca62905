package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

	pid    atomic.Int64 // hookhost run, or the job's leader; 0 before its start
	struck atomic.Bool  // somebody has killed hookhost run
	begun  bool         // the program has started
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{} // closed once cmd has ended

	attached *exec.Cmd
	reaped   chan struct{} // closed once attached has ended
}

// payload is the program of a job: a shell with children in its own session and in others. The
// shell ends when it is told to, with a status or by eating memory.
func (j *liveJob) payload() string {
	end := fmt.Sprint("exit ", j.status)
	if j.eats {
		end = "exec tail /dev/zero"
	}
	return "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &)\n" +
		": > " + j.startedFile() + "\nread x\n" + end
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
	for _, step := range j.steps {
		for _, kill := range step.kills {
			j.strikes.Go(func() { j.w.strike(kill, j) })
		}
		err := j.do(step.name)
		if j.struck.Load() {
			return j.isEndedForRun()
		}
		if err != nil {
			j.giveUp()
			return fmt.Errorf("%s: %w", step.name, err)
		}
		time.Sleep(step.pause)
	}
	j.strikes.Wait()
	if j.struck.Load() && j.cmd.ProcessState.Exited() { // the kill came too late
		j.struck.Store(false)
	}
	return j.check()
}

// do carries out one step.
func (j *liveJob) do(step string) error {
	switch step {
	case "start":
		chunk := fmt.Sprintf("select=1:ncpus=%d:mem=64mb", j.cpus)
		args := []string{"run", "--job", j.id, "-l", chunk, "--report=none", "--"}
		if err := j.start(j.w.command(append(args, j.marked("sh", "-c", j.payload())...)...)); err != nil {
			return err
		}
		return j.starts()
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
			return j.event("execjob_preresume")
		}
		j.signal(syscall.SIGCONT)
		return j.await("the job goes on", func() bool {
			phases, _ := j.w.phases()
			return phases[j.id] == "running"
		})
	case "exit":
		fmt.Fprintln(j.stdin)
		return j.ended()
	}
	return j.event("execjob_" + step)
}

// start starts hookhost run, or the leader of the job.
func (j *liveJob) start(cmd *exec.Cmd) (err error) {
	stderr, err := os.Create(j.w.path("stderr." + j.id))
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	if j.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	j.cmd, j.exited = cmd, make(chan struct{})
	j.pid.Store(int64(cmd.Process.Pid))
	go func() { cmd.Wait(); close(j.exited) }()
	return nil
}

// starts waits until the job's program has started.
func (j *liveJob) starts() error {
	err := j.await("the program starts", func() bool { return exists(j.startedFile()) })
	j.begun = exists(j.startedFile())
	return err
}

// await waits for something that is not to come after the end of the job's process.
func (j *liveJob) await(what string, ok func() bool) error {
	for until := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-j.exited:
			return fmt.Errorf("%s: %v instead: %s", what, j.cmd.ProcessState, j.stderr())
		default:
		}
		if time.Now().After(until) {
			return fmt.Errorf("not in time: %s", what)
		}
	}
	return nil
}

// ended waits for the end of the job's process, and compares it with what was planned.
func (j *liveJob) ended() error {
	select {
	case <-j.exited:
	case <-time.After(time.Minute):
		return errors.New("not in time: the program ends")
	}
	status := j.cmd.ProcessState.Sys().(syscall.WaitStatus)
	got := status.ExitStatus()
	if status.Signaled() && !j.byRun { // run tells it as a shell does
		got = 128 + int(status.Signal())
	}
	if got != j.ends() {
		return fmt.Errorf("ended with %v, want %d: %s", j.cmd.ProcessState, j.ends(), j.stderr())
	}
	return nil
}

func (j *liveJob) stderr() string {
	text, _ := os.ReadFile(j.w.path("stderr." + j.id))
	return string(text)
}

func (j *liveJob) signal(sig syscall.Signal) bool { return send(int(j.pid.Load()), sig) }

// attach has a process outside of the job, as of a launcher's daemon, become one of the job.
func (j *liveJob) attach() error {
	args := append([]string{"-j", j.id, "--"}, j.marked("sleep", "1000")...)
	cmd := exec.Command(filepath.Join(built, "pbs-attach"), args...)
	cmd.Env = j.w.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := os.Create(j.w.path("stderr.attach." + j.id))
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	j.attached, j.reaped = cmd, make(chan struct{})
	go func() { cmd.Wait(); close(j.reaped) }()
	for !slices.Contains(j.w.marked()[j.id], cmd.Process.Pid) {
		select {
		case <-j.reaped:
			text, _ := os.ReadFile(stderr.Name())
			return fmt.Errorf("%v: %s", cmd.ProcessState, text)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// event sends an event until somebody has answered it, as a MoM does whose hook is run again.
func (j *liveJob) event(name string) error {
	memory := "65536kb"
	if name == "execjob_resize" {
		memory = "98304kb"
	}
	job := map[string]any{
		"id": j.id, "name": "x", "run_count": 1, "owner": map[string]any{"user": "root", "uid": 0, "gid": 0},
		"exec_vnode":    fmt.Sprintf("(n1:ncpus=%d:mem=%s)", j.cpus, memory),
		"resource_list": map[string]any{"ncpus": fmt.Sprint(j.cpus), "mem": memory},
	}
	text, err := json.Marshal(map[string]any{"event": name, "pid": j.pid.Load(), "progname": "sh", "job": job})
	if err != nil {
		return err
	}
	var said strings.Builder
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		said.Reset()
		cmd := j.w.command("event", name)
		cmd.Stdin, cmd.Stderr = strings.NewReader(string(text)), &said
		answer, err := cmd.Output()
		if err == nil {
			return nil
		}
		if len(answer) > 0 {
			return fmt.Errorf("rejected: %s", answer)
		}
	}
	return fmt.Errorf("not answered: %s", &said)
}

// isEndedForRun waits until the daemon has ended the job of a run that was killed.
func (j *liveJob) isEndedForRun() error {
	<-j.exited
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := j.check()
		if err == nil || time.Now().After(until) {
			return err
		}
	}
}

// check looks for what an ended job must not leave.
func (j *liveJob) check() error {
	if left := j.w.marked()[j.id]; len(left) > 0 {
		return fmt.Errorf("processes outlive their job: %s", describe(left))
	}
	for _, pattern := range []string{"/jobid/" + j.id, "/jobs/" + j.id} {
		if left := j.w.cgroups(pattern); len(left) > 0 {
			return fmt.Errorf("cgroups outlive their job: %v", left)
		}
	}
	return nil
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
