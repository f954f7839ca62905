package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// isHere is in the answer to the begin of a job that runs.
const isHere = "the job runs here already"

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

// startRun starts hookhost run, unless it was killed before: one that met no daemon is repeated.
func (j *liveJob) startRun(args []string) (started bool, err error) {
	j.striking.Lock()
	defer j.striking.Unlock()
	if j.struck.Load() {
		return false, nil
	}
	return true, j.start(j.w.command(args...))
}

// starts waits until the job's program has started.
func (j *liveJob) starts() error {
	err := j.await("the program starts", func() bool { return exists(j.startedFile()) })
	if j.ends == endsByTime && err != nil { // its time was over before
		err = j.ended()
	}
	j.begun = exists(j.startedFile())
	j.limited.Store(j.begun)
	return err
}

// errLate is of what has not come in time.
var errLate = errors.New("not in time")

// await waits for something that is not to come after the end of the job's process.
func (j *liveJob) await(what string, ok func() bool) error {
	for until := time.Now().Add(12 * late); !ok(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-j.exited:
			return fmt.Errorf("%s: %v instead: %s", what, j.cmd.ProcessState, j.stderr())
		default:
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: %s", errLate, what)
		}
	}
	return nil
}

// ended waits for the end of the job's process, and compares it with what was planned.
func (j *liveJob) ended() error {
	select {
	case <-j.exited:
	case <-time.After(time.Minute):
		return fmt.Errorf("%w: the program ends", errLate)
	}
	status := j.cmd.ProcessState.Sys().(syscall.WaitStatus)
	got := status.ExitStatus()
	if status.Signaled() && !j.byRun { // run tells it as a shell does
		got = 128 + int(status.Signal())
	}
	if !slices.Contains(j.statuses(), got) {
		return fmt.Errorf("ended with %v, want %v: %s", j.cmd.ProcessState, j.statuses(), j.stderr())
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
			err := fmt.Errorf("%v: %s", cmd.ProcessState, text)
			if cmd.ProcessState.ExitCode() == 1 {
				err = fmt.Errorf("%w: %w", errRejected, err)
			}
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// errRejected is of an event that hooks have rejected, and errBusy of the begin of a job whose
// record was damaged, and that is there.
var (
	errRejected = errors.New("rejected")
	errBusy     = errors.New("busy")
)

// event sends an event until somebody has answered it, as a MoM does whose hook is run again.
func (j *liveJob) event(name string) error {
	memory := "65536kb"
	if name == "execjob_resize" {
		memory = "98304kb"
	}
	list := map[string]any{"ncpus": fmt.Sprint(j.cpus), "mem": memory, "pids": "64"}
	vnode := fmt.Sprintf("n1:ncpus=%d:mem=%s", j.cpus, memory)
	if j.fpgas > 0 {
		list["fpga"] = fmt.Sprint(j.fpgas)
		vnode += fmt.Sprintf(":fpga=%d", j.fpgas)
	}
	job := map[string]any{
		"id": j.id, "name": "x", "run_count": 1, "owner": map[string]any{"user": "root", "uid": 0, "gid": 0},
		"exec_vnode": "(" + vnode + ")", "resource_list": list,
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
		var verdict struct{ Reject bool }
		if json.Unmarshal(answer, &verdict) == nil && verdict.Reject {
			return fmt.Errorf("%w: %s", errRejected, answer)
		}
		if strings.Contains(said.String(), isHere) && j.w.isHarmed(j.id) {
			return fmt.Errorf("%w: %s", errBusy, &said)
		}
	}
	return fmt.Errorf("not answered: %s", &said)
}
