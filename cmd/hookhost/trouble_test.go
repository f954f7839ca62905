package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// mountDisks gives the state directory and the live files a disk each, and the daemon a mount
// namespace in which nobody else's mounts change.
func (w *wreck) mountDisks() {
	w.t.Helper()
	w.disk("state", "64m")
	w.disk("run", "8m")
	w.mounts = apart(exec.Command("cat")) // lives as long as its standard input is open
	w.mounts.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	stdin, err := w.mounts.StdinPipe()
	must.NoError(w.t, err, w.mounts.Start())
	w.t.Cleanup(func() {
		stdin.Close()
		w.mounts.Wait()
	})
}

// inside is a command in the mount namespace of the daemon.
func (w *wreck) inside(args ...string) *exec.Cmd {
	return apart(exec.Command("nsenter", append([]string{"--mount", "--target", strconv.Itoa(w.mounts.Process.Pid),
		"--"}, args...)...))
}

// endure carries out one trouble after the other until done is closed; of a brief plan one of each
// kind.
func (w *wreck) endure(plan chaosPlan, done <-chan struct{}) {
	for number := 0; !plan.brief || number < len(troubles); number++ {
		trouble := plan.trouble(number)
		select {
		case <-done:
			return
		case <-time.After(trouble.before):
		}
		if err := w.bring(trouble); err != nil {
			w.wrong("%s: %v", trouble.kind, err)
		}
	}
}

// bring has the node in trouble for a while. These are all that a trouble may cost:
//
//   - A full disk of the state directory, a damaged series and unfinished reports cost no event.
//   - A full disk of the live files, and cgroups that cannot be written or made, cost events their
//     acceptance. Jobs do not start then, and an end is finished later by the node itself.
//   - With a full disk of the live files a kill of the daemon costs its jobs their records.
//   - A lost or damaged record may cost its job the report. A damaged report does.
func (w *wreck) bring(trouble plannedTrouble) error {
	apply, lift := w.fault(trouble)
	switch trouble.kind {
	case liveFull, bothFull, readOnly, noCgroups:
		defer w.excuse(trouble.kind == liveFull || trouble.kind == bothFull)()
	}
	err := apply()
	if errors.Is(err, errNothing) {
		return nil
	}
	if err == nil {
		w.count(trouble.kind)
		if trouble.strike {
			w.strikeDaemon(plannedStrike{victim: victimDaemon, means: byKill})
		}
		time.Sleep(trouble.lasts)
	}
	err = errors.Join(err, lift())
	w.recover()
	w.command("event", "exechost_periodic").Run() // as MoM does every now and then
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.unsaved)
	return err
}

// errNothing is of a trouble that meets nothing, such as a damaged record where there is none.
var errNothing = errors.New("nothing to damage")

// fault returns what brings a trouble, and what ends it.
func (w *wreck) fault(trouble plannedTrouble) (apply, lift func() error) {
	none := func() error { return nil }
	switch trouble.kind {
	case stateFull, liveFull, bothFull:
		dirs := map[string][]string{stateFull: {"state"}, liveFull: {"run"}, bothFull: {"state", "run"}}[trouble.kind]
		each := func(do func(string) error) func() error {
			return func() (err error) {
				for _, dir := range dirs {
					err = errors.Join(err, do(w.path(dir+"/filler")))
				}
				return err
			}
		}
		return each(fillDisk), each(os.Remove)
	case readOnly:
		mounts := w.hierarchies()
		if len(mounts) == 0 {
			return func() error { return errNothing }, none
		}
		dir := mounts[trouble.pick%uint64(len(mounts))]
		return func() error { return w.remount(dir, "ro") }, func() error { return w.remount(dir, "rw") }
	case noCgroups:
		write := func(text string) func() error {
			return func() error {
				files := w.cgroups("/jobs/cgroup.max.descendants")
				if len(files) == 0 {
					return errNothing
				}
				return os.WriteFile(files[0], []byte(text), 0)
			}
		}
		return write("0"), write("max")
	case recordHarm:
		return func() error { return w.spoil(trouble.pick, ".json") }, none
	case seriesHarm:
		return func() error { return w.spoil(trouble.pick, ".series") }, none
	case nodeHarm:
		file := w.path("state/cgroup.offline")
		return func() error { return os.WriteFile(file, mutilated(trouble.pick, nil), 0o600) }, none
	case reportTorn:
		return func() error { return w.harmReport(tear) }, none
	}
	return func() error { return w.harmReport(w.spoilReport(trouble.pick)) }, none
}

// hierarchies are the mounts in which a job has a cgroup.
func (w *wreck) hierarchies() (mounts []string) {
	for _, dir := range append(w.cgroups("/jobid"), w.cgroups("/jobs")...) {
		mounts = append(mounts, strings.TrimSuffix(filepath.Dir(dir), "/"+w.prefix+".service"))
	}
	return mounts
}

// remount makes a hierarchy read-only for the daemon and its hooks alone, or writable again. A
// mount on which somebody writes at this moment stays as it is.
func (w *wreck) remount(dir, mode string) (err error) {
	for range 100 {
		var out []byte
		out, err = w.inside("mount", "-o", "remount,bind,"+mode, dir).CombinedOutput()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%w: %s", err, out)
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// spoil damages a file of a live job as a daemon finds it that starts.
func (w *wreck) spoil(pick uint64, suffix string) error {
	files, _ := filepath.Glob(w.path("run/jobs/" + w.prefix + "/*" + suffix))
	if len(files) == 0 {
		return errNothing
	}
	daemon := w.victim(w.daemonPID)
	send(daemon, syscall.SIGSTOP)
	defer w.strikeDaemon(plannedStrike{victim: victimDaemon, means: byKill})
	path := files[pick%uint64(len(files))]
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return errNothing
	}
	if suffix == ".json" {
		w.costs(strings.TrimSuffix(filepath.Base(path), suffix))
	}
	return errors.Join(err, os.WriteFile(path, mutilated(pick, text), 0o600))
}

// mutilated is a file after damage: of no bytes, a part of it or something else.
func mutilated(pick uint64, text []byte) []byte {
	switch pick % 3 {
	case 0:
		return nil
	case 1:
		return append(text[:len(text)/2:len(text)/2], 0)
	}
	return bytes.Repeat([]byte{0xff, '{'}, 100)
}

// costs notes that a job may have lost its record or its report.
func (w *wreck) costs(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harmed[id] = true
}

// isHarmed reports whether a job may have lost its record or its report.
func (w *wreck) isHarmed(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.harmed[id]
}

// harmReport changes the newest report of a finished job.
func (w *wreck) harmReport(change func(path string) error) error {
	files := w.reportFiles("")
	if len(files) == 0 {
		return errNothing
	}
	return change(files[len(files)-1])
}

// tear leaves an unfinished file beside a report, as a daemon does that is killed.
func tear(path string) error {
	return os.WriteFile(filepath.Join(filepath.Dir(path), ".hookhost-1.tmp"), []byte("\x1f\x8b"), 0o600)
}

// spoilReport changes a byte of a report.
func (w *wreck) spoilReport(pick uint64) func(string) error {
	return func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.Split(filepath.Base(path), ".") // end, fraction, uid, states, job, server, run
		w.costs(strings.Join(name[4:len(name)-3], "."))
		content[pick%uint64(len(content))] ^= 1
		return os.WriteFile(path, content, 0o600)
	}
}

// recover waits until the hooks run again. A hook that has failed to start often is left alone by
// the daemon for a while, so that an administrator may restart the daemon.
func (w *wreck) recover() {
	for until := time.Now().Add(stalled); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		client, err := api.Dial(w.path("run/s"))
		if err != nil {
			continue
		}
		info, err := client.Node(w.t.Context())
		client.Close()
		running := 0
		for _, hook := range info.Hooks {
			if hook.State == "running" {
				running++
			}
		}
		if err == nil && running == len(victimHooks) {
			return
		}
	}
	w.strikeDaemon(plannedStrike{victim: victimDaemon, means: byTerm})
	w.count("restart by hand")
	w.victim(func() int { return w.runningPID("cgroup") })
}
