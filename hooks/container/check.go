package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/passwd"
	"github.com/hookhost/hookhost/internal/proc"
)

// An image, and the engine, may be on a file server that does not answer, or in a file system of
// the owner's. So another process opens the image, with a time limit. That process is this program,
// which root starts. A process that becomes a user without execve(2) cannot be traced by that user.
// It is outside the job, so a tracer could use it to leave the job.

// checkCommand makes this program check an engine and an image: USER UID GID PROGRAM IMAGE.
const checkCommand = "check-image"

// checkLimit is how long a check may take.
const checkLimit = 5 * time.Second

// checkPause is how long an owner's images are not checked after a check that took too long.
// pbs_mom waits for each check, and an owner may have thousands of jobs.
const checkPause = time.Minute

// checker checks images.
type checker struct {
	limit, pause time.Duration
	late         sync.Map // uids of owners with a check that hangs, or whose pause lasts
}

// The answers of a check are exit statuses. After the last three, the line on standard error is the
// reason.
const (
	isFile      = 0
	isDirectory = 10
	noImage     = 11
	noEngine    = 12
	noAnswer    = 13 // the file system failed
)

// errImage is an error that says why the owner cannot read the image.
type errImage string

func (e errImage) Error() string { return string(e) }

// check reports whether the image at path is a directory. If path is "", it examines only program.
// It fails with KindNode if the owner cannot execute program, and with an errImage if the owner
// cannot read the image. If the file system fails or does not answer in time, it fails with
// KindBusy. While a check of the same owner hangs in the kernel, and for a pause after that, it
// fails at once.
func (c *checker) check(ctx context.Context, owner hostapi.Owner, program, path string) (directory bool, err error) {
	if _, late := c.late.Load(owner.UID); late {
		return false, hostapi.Errorf(hostapi.KindBusy, "an earlier check of an image of %s got no answer", owner.User)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var says bytes.Buffer
	cmd := exec.Command("/proc/self/exe", checkCommand, owner.User, strconv.Itoa(owner.UID), strconv.Itoa(owner.GID),
		program, path)
	cmd.Stderr, cmd.WaitDelay = &says, time.Second
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that what it starts is killed too
	if err := cmd.Start(); err != nil {
		return false, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		c.late.Store(owner.UID, true)
		go func() {
			<-ended
			time.Sleep(c.pause)
			c.late.Delete(owner.UID)
		}()
		return false, hostapi.Errorf(hostapi.KindBusy, "no answer in %v from its file system or the name services",
			c.limit)
	}
	why := strings.TrimSpace(says.String())
	switch code := cmd.ProcessState.ExitCode(); code {
	case isFile, isDirectory:
		return code == isDirectory, nil
	case noImage:
		return false, hostapi.Errorf(hostapi.KindJob, "%w", errImage(why))
	case noEngine:
		return false, hostapi.Errorf(hostapi.KindNode, "container engine %s: %s", program, why)
	case noAnswer:
		return false, hostapi.Errorf(hostapi.KindBusy, "%s", why)
	}
	return false, hostapi.Errorf(hostapi.KindNode, "check it as %s: %w: %s", owner.User, err, why)
}

// checkAsOwner is the other process: it becomes the owner and opens the image. It returns the exit
// status.
func checkAsOwner(args []string, stderr io.Writer) int {
	runtime.LockOSThread()
	if len(args) != 5 {
		fmt.Fprintln(stderr, "want USER UID GID PROGRAM IMAGE")
		return 1
	}
	user, uid, gid, program, path := args[0], args[1], args[2], args[3], args[4]
	directory := false
	for _, step := range []struct {
		failure int
		do      func() error
	}{
		{1, func() error { return becomeOwner(user, uid, gid) }},
		{noEngine, func() error { return unix.Access(program, unix.X_OK) }},
		{noImage, func() (err error) {
			if path != "" {
				directory, err = open(path)
			}
			return err
		}},
	} {
		if err := step.do(); err != nil {
			fmt.Fprintln(stderr, err)
			errno, is := errors.AsType[syscall.Errno](err)
			if is && step.failure == noImage && !slices.Contains(lasting, errno) {
				return noAnswer
			}
			return step.failure
		}
	}
	if directory {
		return isDirectory
	}
	return isFile
}

// becomeOwner gives the process the user's ids and all of the user's groups, as MoM's initgroups(3)
// does.
func becomeOwner(name, uid, gid string) error {
	groups, err := passwd.Groups(name)
	if err != nil {
		return err
	}
	c := &syscall.Credential{Groups: groups}
	if _, err := fmt.Sscan(uid+" "+gid, &c.Uid, &c.Gid); err != nil {
		return fmt.Errorf("ids of user %s: %w", name, err)
	}
	if err := proc.BecomeUser(c); err != nil {
		return err
	}
	// The kernel has already done so, unless fs.suid_dumpable is 1.
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// lasting are the errors that do not depend on the state of a file server.
var lasting = []syscall.Errno{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.EPERM, unix.ELOOP, unix.ENAMETOOLONG}

// open opens an image for reading and reports whether it is a directory. Nothing else is opened,
// since that of a device could have an effect. The errors do not name the path.
func open(path string) (directory bool, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	itself := "/proc/self/fd/" + strconv.Itoa(fd)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		if err := unix.Access(itself, unix.X_OK); err != nil {
			return true, err
		}
		directory = true
	default:
		return false, errors.New("neither a file nor a directory")
	}
	_, err = unix.Open(itself, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return directory, err
}
