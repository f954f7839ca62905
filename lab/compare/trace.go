package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The kernel's tracepoints record how long each pbs_python of the node lives: from the fork in MoM
// to its exit.

const (
	traceDir = "/run/trace/instances/" + labName
	momPid   = `cat ` + pbsHome + `/mom_priv/mom.lock`
	hangUp   = `kill -HUP $(` + momPid + `)`
	momLog   = pbsHome + "/mom_logs/$(date +%Y%m%d)" // today's
)

// startTrace also restarts MoM: an old one keeps a periodic's freq until it has run once more.
func startTrace(ctx context.Context) error {
	for _, hook := range []string{"hookhost", "pbs_cgroups"} {
		off := "qmgr -c 'set hook " + hook + " enabled = false'; qmgr -c 'set hook " + hook + " freq = 5'"
		if _, err := sh(ctx, "root", off); err != nil {
			return err
		}
	}
	if _, err := sh(ctx, "root", "sleep 3; kill $("+momPid+"); sleep 2; pbs_mom; sleep 3"); err != nil {
		return err
	}
	pid, err := machinePid(ctx)
	if err != nil {
		return err
	}
	_, err = sh(ctx, "root", `mkdir -p /run/trace && mount -t tracefs tracefs /run/trace && mkdir -p `+traceDir+` && cd `+traceDir+`
echo mono >trace_clock; echo 16384 >buffer_size_kb
echo 'filename ~ "*/pbs_python*"' >events/sched/sched_process_exec/filter
echo 1 >options/event-fork; echo `+pid+` >set_event_pid
for e in fork exec exit; do echo 1 >events/sched/sched_process_$e/enable; done`)
	return err
}

// stopTrace removes the trace, which is the kernel's and would outlive the node. It is idempotent.
func stopTrace() error {
	_, err := sh(context.Background(), "root", "[ ! -e "+traceDir+" ] || rmdir "+traceDir)
	return err
}

// machinePid is the pid of MoM as the kernel's tracepoints have it: the machine's.
func machinePid(ctx context.Context) (string, error) {
	inNode, err := sh(ctx, "root", momPid)
	if err != nil {
		return "", err
	}
	status, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return "", err
	}
	for _, file := range status {
		b, _ := os.ReadFile(file)
		cgroup, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		pids := regexp.MustCompile(`(?m)^NSpid:\s+(\d+)\s+(\d+)$`).FindStringSubmatch(string(b))
		if pids != nil && pids[2] == inNode && strings.Contains(string(cgroup), "/"+labName+"-"+node) {
			return pids[1], nil
		}
	}
	return "", fmt.Errorf("find MoM, pid %s on the node: no such process of the machine", inNode)
}

// resetTrace removes what was recorded.
func resetTrace(ctx context.Context) error {
	_, err := sh(ctx, "root", "echo >"+traceDir+"/trace; wc -l "+momLog+" >/run/mom_logs.from")
	return err
}

var (
	traceLine = regexp.MustCompile(`(\d+\.\d+): sched_process_(fork|exec|exit): (.*)$`)
	tracePid  = regexp.MustCompile(`(?:^|\s)pid=(\d+)`)
	childPid  = regexp.MustCompile(`child_pid=(\d+)`)
	execLine  = regexp.MustCompile(`execve \S*pbs_python --hook -i \S*/hook_(exec[a-z]+_[a-z]+)_`)
)

// lives returns the lives of all pbs_python since resetTrace, in ms, by event. MoM logs each execve
// in the order in which the kernel sees them, and only the log knows the event.
func lives(ctx context.Context) (map[string]values, error) {
	trace, err := sh(ctx, "root", "cat "+traceDir+"/trace")
	if err != nil {
		return nil, err
	}
	log, err := sh(ctx, "root",
		`read -r n _ </run/mom_logs.from; tail -n +$((n + 1)) `+momLog+` | grep ';execve ' || :`)
	if err != nil {
		return nil, err
	}
	born, exited, execs := map[string]float64{}, map[string]float64{}, []string(nil)
	seen := map[string]bool{}
	for line := range strings.Lines(trace) {
		m := traceLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		at, _ := strconv.ParseFloat(m[1], 64)
		switch pid := tracePid.FindStringSubmatch(m[3]); m[2] {
		case "fork":
			born[childPid.FindStringSubmatch(m[3])[1]] = at
		case "exec":
			// The stand-in becomes the real pbs_python for hooks that are not ours.
			if !seen[pid[1]] {
				execs = append(execs, pid[1])
			}
			seen[pid[1]] = true
		case "exit":
			if seen[pid[1]] {
				exited[pid[1]] = at
			}
		}
	}
	var events []string
	for line := range strings.Lines(log) {
		if m := execLine.FindStringSubmatch(line); m != nil {
			events = append(events, m[1])
		}
	}
	if len(events) != len(execs) {
		return nil, fmt.Errorf("trace: %d execve of pbs_python in mom_logs, %d in the kernel", len(events), len(execs))
	}
	took := map[string]values{}
	for i, pid := range execs {
		if exited[pid] == 0 || born[pid] == 0 {
			return nil, fmt.Errorf("trace: pid %s of %s: from %v to %v", pid, events[i], born[pid], exited[pid])
		}
		took[events[i]] = append(took[events[i]], (exited[pid]-born[pid])*1000)
	}
	return took, nil
}
