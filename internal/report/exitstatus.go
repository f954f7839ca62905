package report

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalOf returns the number of the signal in an exit status, 0 for another status. A signal is
// 128+N in a shell and in hookhost, and 256+N in PBS.
func signalOf(status int) int {
	n := status - 128
	if status > 256 {
		n = status - 256
	}
	if n < 1 || n > 64 {
		return 0
	}
	return n
}

func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n) // a real-time signal
}

// exitText names the signal in an exit status, if there is one.
func exitText(status int) string {
	if n := signalOf(status); n > 0 {
		return fmt.Sprintf("killed by %s (Exit_status %d)", signalName(n), status)
	}
	return fmt.Sprintf("exit status %d", status)
}

// withStatus adds the exit status to a reason, with the signal that it stands for.
func withStatus(reason string, status int) string {
	text := fmt.Sprintf("Exit_status %d", status)
	if n := signalOf(status); n > 0 {
		text += ", " + signalName(n)
	}
	return inBrackets(reason, text)
}

func inBrackets(reason, more string) string {
	if reason == "" {
		return more
	}
	return reason + " (" + more + ")"
}

// statusReason explains what shells return for a command that they could not run.
var statusReason = map[int]string{
	126: "the shell could not run a program: is it executable, and built for this host?",
	127: "the shell did not find a program: is its module loaded?",
}

// signalReason explains the signals that a program gets for its own doing.
var signalReason = map[string]string{
	"SIGSEGV": "a program used an address where it has no memory, which is an error in the program",
	"SIGBUS":  "a program used memory that nothing backs, such as a file that has become shorter",
	"SIGFPE":  "a program divided a whole number by zero",
	"SIGILL":  "a program has an instruction that the processor does not know: was it built for another one?",
	"SIGABRT": "a program aborted because of an error: see its last messages",
	"SIGPIPE": "a program wrote to another one that had ended",
	"SIGXCPU": "a process used more cpu time than RLIMIT_CPU allows",
	"SIGXFSZ": "a process wrote a larger file than RLIMIT_FSIZE allows",
}

// limitStatus has the limits for which pbs_mom ends a job, by Exit_status (JOB_EXEC_KILL_* of
// openpbs src/include/job.h).
var limitStatus = map[int]string{-24: "ncpus", -25: "ncpus", -26: "vmem", -27: "mem", -28: "cput", -29: "walltime"}

// pbsStatus has the outcomes of the other statuses that PBS itself gives a job (JOB_EXEC_* there).
var pbsStatus = map[int]Outcome{
	-1: noStart, -2: noStart, -3: noStart, -30: noStart,
	-4: momGone, -5: momGone, -6: momGone, -7: {stateFailed, "failed in PBS", "the job could not be restarted"},
	-10: {stateFailed, "failed in PBS", "the host does not know the job's owner"},
	-11: {stateCancelled, "requeued", "it was ended on request, as by qrerun, and runs again"},
	-12: {stateCancelled, "checkpointed", "it was ended on request, and continues later"},
	-13: {stateFailed, "failed in PBS", "the password of the job's owner was refused"},
	-14: hostGone, -20: hostGone,
	-15: {stateCancelled, "requeued", "it continues from a checkpoint"},
	-16: hookRefused, -17: hookRefused, -18: hookRefused, -19: hookRefused, -22: hookRefused,
	-21: {stateFailed, "failed in PBS", "the directories of PBS on the host are not safe"},
	-23: {stateFailed, "failed in PBS", "the job has no Kerberos credentials"},
}

var (
	noStart     = Outcome{stateFailed, "failed in PBS", "PBS could not start it"}
	momGone     = Outcome{stateNode, "node failure", "pbs_mom was restarted and gave the job up"}
	hostGone    = Outcome{stateNode, "node failure", "a host of the job failed, or the others could not reach it"}
	hookRefused = Outcome{stateFailed, "rejected", "a hook refused the job"}
)
