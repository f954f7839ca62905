package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	jobsATurn   = 5
	crowdsATurn = 2
)

// scripts are the jobs, by the names of their files. bash writes the time, in seconds, without
// another program.
var scripts = map[string]string{
	"short": `echo $EPOCHREALTIME >` + workDir + `/began`,
	// A process outside the job's session is attached, and a periodic may come.
	"events": `echo $EPOCHREALTIME >` + workDir + `/began
setsid sleep 0.7 & sleep 0.2
/opt/pbs/bin/pbs_attach -j $PBS_JOBID -p $!
sleep 1`,
	// All processes hold the gate open. Its reader sees the end of file when the last has ended.
	"crowd": `exec 9>` + workDir + `/gate
for ((i = 1; i < PROCESSES; i++)); do sleep 1000 & done
echo >` + workDir + `/ready
read <` + workDir + `/go`,
}

// writeScripts fills workDir, with the root directory of podman's container in it. A crowd has so
// many processes.
func writeScripts(processes int) error {
	root := filepath.Join(workDir, "root")
	for _, name := range []string{"usr", "dev", "proc", "sys", "tmp", "run"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for name, text := range scripts {
		text = fmt.Sprintf("#!/bin/bash\nPROCESSES=%d\n%s\n", processes, text)
		if err := os.WriteFile(filepath.Join(workDir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(workDir, 0o777) // whatever the umask
}

// measure runs all engines in turns on a node of the lab.
func measure(ctx context.Context, rounds int) (r run, err error) {
	if err := up(ctx); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stopTrace(), down()) }()
	if err := install(ctx); err != nil {
		return r, err
	}
	if err := startTrace(ctx); err != nil {
		return r, err
	}
	return inTurns(ctx, rounds, engines, versionsLine)
}

// inTurns measures engines, one after the other in each round.
func inTurns(ctx context.Context, rounds int, engines []engine, versions string) (r run, err error) {
	began := time.Now()
	r = run{Began: began.UTC().Format("2006-01-02 15:04"), Rounds: rounds, Figures: map[string]map[string]values{}}
	if r.Machine, err = sh(ctx, "root", machineLine); err != nil {
		return r, err
	}
	if r.Versions, err = sh(ctx, "root", versions); err != nil {
		return r, err
	}
	for i := range rounds {
		for _, e := range engines {
			fmt.Fprintf(os.Stderr, "%4.0f s  round %d of %d: %s\n", time.Since(began).Seconds(), i+1, rounds, e.name)
			if r.Figures[e.name] == nil {
				r.Figures[e.name] = map[string]values{}
			}
			if err := e.turn(ctx, r.Figures[e.name]); err != nil {
				return r, fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	return r, nil
}

const (
	machineLine = `. /etc/os-release; echo "$(nproc) cpus ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), ` +
		`$(uname -sr), ${PRETTY_NAME%% (*}"`
	versionsLine = `echo "OpenPBS $(qstat --version | sed 's/.* = //'), Slurm $(slurmd -V | sed 's/[^ ]* //'), ` +
		`podman $(podman --version | sed 's/.* //') with $(runc --version | head -1 | sed 's/ version//')"`
)

// turn measures one engine's jobs and adds them to its figures.
func (e engine) turn(ctx context.Context, figures map[string]values) error {
	if _, err := sh(ctx, "root", e.on); err != nil {
		return err
	}
	if e.events {
		if err := resetTrace(ctx); err != nil {
			return err
		}
	}
	for range jobsATurn {
		if err := e.job(ctx, figures); err != nil {
			return err
		}
	}
	if e.events {
		time.Sleep(6 * time.Second) // a periodic
		byEvent, err := lives(ctx)
		if err != nil {
			return err
		}
		for event, took := range byEvent {
			figures[event] = append(figures[event], took...)
		}
	}
	for range crowdsATurn {
		if e.start == "" {
			break
		}
		if err := e.crowd(ctx, figures); err != nil {
			return err
		}
	}
	_, err := sh(ctx, "root", e.off)
	return err
}

// job runs a job. The figure is the time from the command to the first command of the script.
func (e engine) job(ctx context.Context, figures map[string]values) error {
	script := "short"
	if e.events {
		script = "events"
	}
	out, err := sh(ctx, e.user, fmt.Sprintf(`cd %[1]s; rm -f began; SCRIPT=%[1]s/%[2]s MEM=64; echo $EPOCHREALTIME
%[3]s >/dev/null; cat began`, workDir, script, e.run))
	if err != nil {
		return err
	}
	at, err := seconds(out, 2)
	if err != nil {
		return err
	}
	figures[firstCommand] = append(figures[firstCommand], (at[1]-at[0])*1000)
	return nil
}

// crowd runs a job of many processes. Its script ends and leaves all others. The figures are the
// times from there to the end of the last process, and until the node has nothing left of the job.
// The services' memory is measured before the job, their attendants' while it runs.
func (e engine) crowd(ctx context.Context, figures map[string]values) error {
	out, err := sh(ctx, "root", fmt.Sprintf(`cd %[1]s; rm -f gate go ready dead pause; mkfifo -m 0666 gate go pause; exec 8<>pause
pss() { for p in $([ -z "$1" ] || pgrep -f "$1"); do cat /proc/$p/smaps_rollup; done | awk '/^Pss:/ { s += $2 } END { print s + 0 }'; }
at_rest=$(pss '%[5]s')
(cat gate; echo $EPOCHREALTIME >dead) &
export SCRIPT=%[1]s/crowd MEM=1000
ID=$(runuser -u %[2]s -- bash -c '%[3]s')
until [ -e ready ]; do read -t 0.05 -u 8; done
read -t 1 -u 8
more=$(pss '%[6]s')
order=$EPOCHREALTIME
echo >go
until %[4]s; do read -t 0.002 -u 8; done >/dev/null
gone=$EPOCHREALTIME
wait
echo $at_rest $more $order $(<dead) $gone`,
		workDir, e.user, e.start, e.gone, e.services, e.attendant))
	if err != nil {
		return err
	}
	at, err := seconds(out, 5)
	if err != nil {
		return err
	}
	figures[memory] = append(figures[memory], at[0]/1024)
	figures[jobMemory] = append(figures[jobMemory], at[1]/1024)
	figures[processesEnd] = append(figures[processesEnd], (at[3]-at[2])*1000)
	figures[jobEnd] = append(figures[jobEnd], (at[4]-at[2])*1000)
	return nil
}

// seconds reads n numbers.
func seconds(out string, n int) (at []float64, err error) {
	fields := strings.Fields(out)
	if len(fields) != n {
		return nil, fmt.Errorf("%q: want %d numbers", out, n)
	}
	for _, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, err
		}
		at = append(at, v)
	}
	return at, nil
}
