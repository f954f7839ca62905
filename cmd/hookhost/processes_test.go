package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// stat returns what proc(5) has of a process; all zero of one that is not there.
func stat(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	s, _ := p.Stat()
	return s
}

// state is the state of a process as proc(5) has it; "" of one that has ended.
func state(pid int) string { return stat(pid).State }

// parentOf returns the pid of a process's parent, 0 for none.
func parentOf(pid int) int { return stat(pid).PPID }

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) []int {
	var pids []int
	all, _ := procfs.AllProcs()
	for _, p := range all {
		pids = append(pids, p.PID)
	}
	return slices.DeleteFunc(pids, func(child int) bool { return parentOf(child) != pid })
}

// processesNamed returns the pids whose command line is args.
func processesNamed(args ...string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if string(b) == strings.Join(args, "\x00")+"\x00" {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}
