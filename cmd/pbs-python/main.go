// Command pbs_python stands in for PBS_EXEC/bin/pbs_python, where an administrator has chosen so
// (`hookhost openpbs install --native`). MoM starts a Python interpreter for each event of each
// hook. For the events of hookhost's hook this program asks the daemon itself and writes MoM's
// output file. In every other case, and in every doubt, it becomes the real pbs_python, with
// arguments and environment as they came. Other hooks and people's scripts are such cases.
//
// The program follows what MoM does in run_hook (src/resmom/mom_hook_func.c) and what pbs_python
// does with it (main in src/tools/pbs_python.c). The program holds no policy. The shim decides what
// becomes of an event that the daemon does not answer, so the real pbs_python is started for it.
//
// The program imports as little as it can: its time is start-up. BenchmarkEvent measures beside it
// what Go does by itself before main. The two settings keep Go from reading the cgroup's cpu quota,
// which is nothing to a program of one thread.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"
	"syscall"
	"time"
)

// The files beside this program, as integrations/openpbs/standin.go puts them there.
const (
	realSuffix  = ".openpbs"
	notesSuffix = ".hookhost"
)

// replyVariable tells the shim the descriptor that has the daemon's answer.
const replyVariable = "HOOKHOST_REPLY_FD="

func main() {
	start := time.Now()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil || self == "" {
		self = os.Args[0]
	}
	become := real(self)
	if isHook(os.Args) {
		if v := answer(os.Args, self, start); v.done {
			return
		} else if v.variable != "" {
			execReal(become, append(syscall.Environ(), v.variable))
		}
	}
	execReal(become, syscall.Environ())
}

// real is where PBS's own program is: beside this one.
func real(self string) string { return self + realSuffix }

// execReal becomes the real pbs_python. 2 is what that ends with when it cannot work; MoM then logs
// an internal error.
func execReal(path string, env []string) {
	err := syscall.Exec(path, os.Args, env)
	os.Stderr.WriteString("pbs_python (hookhost's stand-in): start " + path + ": " + err.Error() + "\n")
	os.Exit(2)
}

// isHook reports whether MoM or the server runs a hook, from the arguments alone: most calls by
// people are over here.
func isHook(args []string) bool { return len(args) > 2 && args[1] == "--hook" }
