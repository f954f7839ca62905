// Command pbs_python replaces PBS_EXEC/bin/pbs_python if an administrator chooses that (`hookhost
// openpbs install --native`). MoM starts a Python interpreter for each event of each hook. For the
// events of hookhost's hook this program asks the daemon itself and writes MoM's output file. In
// every other case, and in any doubt, it executes the real pbs_python with the same arguments and
// environment. Other hooks and people's scripts are such cases.
//
// The program follows MoM's run_hook (src/resmom/mom_hook_func.c) and main of pbs_python
// (src/tools/pbs_python.c). It contains no policy. If the daemon does not answer an event, the shim
// decides about it, so the real pbs_python is started.
//
// The program imports as little as possible, because most of its time is start-up. For comparison,
// BenchmarkEvent also measures what Go does before main. The two settings prevent Go from reading
// the cgroup's cpu quota, which does not matter to a program with one thread.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"
	"syscall"
	"time"
)

// realSuffix is that of PBS's own program beside this one, which integrations/openpbs/standin.go
// installs.
const realSuffix = ".openpbs"

// mark begins the script of hookhost's hook: integrations/openpbs/shim.go.
const mark = "# hookhost: "

// replyVariable names the descriptor with the daemon's answer for the shim.
const replyVariable = "HOOKHOST_REPLY_FD="

func main() {
	start := time.Now()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil || self == "" {
		self = os.Args[0]
	}
	become := real(self)
	if isHook(os.Args) {
		if v := answer(os.Args, start); v.done {
			return
		} else if v.variable != "" {
			execReal(become, append(syscall.Environ(), v.variable))
		}
	}
	execReal(become, syscall.Environ())
}

// real returns the path of PBS's own program, which is beside this one.
func real(self string) string { return self + realSuffix }

// execReal executes the real pbs_python. If that fails, this program exits with 2, as pbs_python
// does if it cannot work. MoM then logs an internal error.
func execReal(path string, env []string) {
	err := syscall.Exec(path, os.Args, env)
	os.Stderr.WriteString("pbs_python (hookhost's stand-in): start " + path + ": " + err.Error() + "\n")
	os.Exit(2)
}

// isHook reports from the arguments alone whether MoM or the server runs a hook. Most calls by
// people end here.
func isHook(args []string) bool { return len(args) > 2 && args[1] == "--hook" }
