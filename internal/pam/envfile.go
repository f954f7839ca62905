package pam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/disk"
)

// EnvFile is the path of the file from which pam_env(8) reads a login's variables. PAM's
// configuration names it, so it is the same for all logins. Therefore the file belongs to one login
// at a time, between two calls of `hookhost pam`. Its first line names the process of that login.
type EnvFile string

// longestLogin is how long a login can have the file. pam_env reads it within milliseconds. A login
// that was stopped in between must not keep the variables from all others.
const longestLogin = time.Minute

// longestPause bounds the pause between two attempts. Hundreds of logins may wait.
const longestPause = 100 * time.Millisecond

// errTaken means that another login has the file.
var errTaken = errors.New("another login has it")

// Write writes the variables of the login of process pid. It waits until no other login has the
// file, and fails when ctx ends. Of each user, one login at a time competes for the file, so that a
// user with many does not hold up the others. If Write fails, the file may be another login's, and
// pam_env must not read it. Variables that pam_env cannot read are left out.
func (f EnvFile) Write(ctx context.Context, uid, pid int, env map[string]string) error {
	done, err := f.turn(ctx, uid)
	if err != nil {
		return err
	}
	defer done()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, longestPause) {
		err := f.locked(ctx, func() error {
			if holder := f.holder(); holder != 0 && holder != pid {
				return errTaken
			}
			return disk.ReplaceUnsynced(string(f), encode(pid, env), 0o600)
		})
		if !errors.Is(err, errTaken) {
			return err
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("write %s: %w", f, err)
		}
	}
}

// turn waits until no other login of the user competes for the file. The kernel ends a turn if the
// process dies.
func (f EnvFile) turn(ctx context.Context, uid int) (done func(), err error) {
	lock, err := f.openLock()
	if err != nil {
		return nil, err
	}
	one := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(uid), Len: 1} // bytes of the file need not exist
	for {
		err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &one)
		if err == nil {
			return func() { lock.Close() }, nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			lock.Close()
			return nil, &fs.PathError{Op: "lock", Path: lock.Name(), Err: err}
		}
		select {
		case <-time.After(rand.N(longestPause)):
		case <-ctx.Done():
			lock.Close()
			return nil, fmt.Errorf("lock %s: other logins of uid %d wait: %w", lock.Name(), uid, ctx.Err())
		}
	}
}

func (f EnvFile) openLock() (*os.File, error) {
	return os.OpenFile(string(f)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
}

// Remove removes the file if it belongs to the login of process pid.
func (f EnvFile) Remove(ctx context.Context, pid int) error {
	return f.locked(ctx, func() error {
		if f.holder() != pid {
			return nil
		}
		return os.Remove(string(f))
	})
}

// locked calls do while no other process writes or removes the file.
func (f EnvFile) locked(ctx context.Context, do func() error) error {
	lock, err := f.openLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := disk.Lock(ctx, int(lock.Fd())); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return do()
}

// holder returns the process whose login has the file, and 0 if there is none.
func (f EnvFile) holder() int {
	info, err := os.Stat(string(f))
	if err != nil || time.Since(info.ModTime()) > longestLogin {
		return 0
	}
	text, err := os.ReadFile(string(f))
	if err != nil {
		return 0
	}
	var pid int
	if _, err := fmt.Sscanf(string(text), holderLine, &pid); err != nil || unix.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// holderLine is the first line of the file, a comment for pam_env.
const holderLine = "# %d\n"

// encode returns the text of the file.
func encode(pid int, env map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, holderLine, pid)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if isReadable(name, env[name]) {
			fmt.Fprintf(&b, "%s=%s\n", name, env[name])
		}
	}
	return b.Bytes()
}

// longestLine is less than BUF_SIZE of pam_env.c. Before Linux-PAM 1.4 that is 1024, and the rest
// of a longer line is read as another variable, whose name the job's owner could choose. Since then
// it is 8192, and after a longer line nothing more is read.
const longestLine = 1000

// isReadable reports whether pam_env reads this variable as it is. There, # begins a comment, and a
// line that ends with \ continues. Quotes around a value are removed (Linux-PAM
// modules/pam_env/pam_env.c, _parse_env_file).
func isReadable(name, value string) bool {
	return config.IsVariable(name) && !strings.ContainsFunc(value, isControl) &&
		len(name)+len(value) < longestLine &&
		!strings.Contains(value, "#") && strings.Trim(value, " \\\"'") == value
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
