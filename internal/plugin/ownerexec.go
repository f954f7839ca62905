package plugin

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/proc"
)

// ownerArg0 is the argv[0] by which the host's own executable becomes a hook's program with
// user=pbsuser.
const ownerArg0 = "hookhost-as-owner"

// ownerArgs are the arguments with which ExecAsOwner becomes that program with the credential.
func ownerArgs(program string, cred *syscall.Credential) []string {
	args := []string{ownerArg0, program, strconv.Itoa(int(cred.Uid)), strconv.Itoa(int(cred.Gid))}
	for _, group := range cred.Groups {
		args = append(args, strconv.Itoa(int(group)))
	}
	return args
}

// ExecAsOwner replaces the process with a hook's program of a job's owner, if the host has started
// it for that. Each main that opens a host calls it before anything else. With other arguments the
// result is nil. Else ExecAsOwner returns only when it fails.
//
// A child of syscall.ForkExec holds up the thread of its parent until its execve(2) (CLONE_VFORK),
// and with it all of the Go runtime. A user may stop what has his uid (kill(2)). So the child has
// the host's uid until its execve of the host's own executable, and takes the owner's here.
func ExecAsOwner(args, env []string) error {
	if len(args) < 4 || args[0] != ownerArg0 {
		return nil
	}
	runtime.LockOSThread() // the death signal is a thread's, and stays with the one that calls execve
	parent := os.Getppid()
	if err := proc.LeaveSessionKeyring(); err != nil { // it is root's, where root's command has started the host
		return err
	}
	// The daemon's is -900 under systemd: what this program starts would outlive all of the node.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0); err != nil {
		return err
	}
	if err := becomeOwner(args[2:]); err != nil {
		return err
	}
	// The change of user has cleared the death signal (prctl(2)).
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set death signal: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the host is gone") // it may have died while there was no signal
	}
	path := args[1]
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(programPath, []string{path}, env))
}

// becomeOwner gives all threads the uid, the gid and the groups, in this order.
func becomeOwner(ids []string) error {
	numbers := make([]int, len(ids))
	for i, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return fmt.Errorf("id %q: %w", id, err)
		}
		numbers[i] = int(n)
	}
	if err := syscall.Setgroups(numbers[2:]); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setgid(numbers[1]); err != nil {
		return fmt.Errorf("set gid %d: %w", numbers[1], err)
	}
	if err := syscall.Setuid(numbers[0]); err != nil {
		return fmt.Errorf("set uid %d: %w", numbers[0], err)
	}
	return nil
}
