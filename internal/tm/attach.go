// Package tm attaches processes to a job like PBS's task manager, for hookhost's pbs_attach.
package tm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
)

// attachTime bounds the retries of Attach.
const attachTime = 10 * time.Second

// Attach attaches a process of this host to a job; "" means the only job of its user. It retries
// errors that may pass, because a rank that cannot be attached ends its job. Attaching twice does
// no harm.
func Attach(ctx context.Context, socket, job string, pid int) (api.Attached, error) {
	return Retry(ctx, socket, attachTime, func(client *api.Client) (api.Attached, error) {
		return client.Attach(ctx, job, pid)
	})
}

// WholeID returns the id of the only live job that the caller may see and that a number such as 12
// means. It returns anything else as it is, including a number without a job. The error for several
// jobs lists them.
func WholeID(ctx context.Context, socket, given string) (string, error) {
	if given == "" || strings.Contains(given, ".") {
		return given, nil
	}
	jobs, err := once(socket, func(client *api.Client) ([]api.Job, error) { return client.Jobs(ctx) })
	if err != nil { // Attach tries longer
		return given, nil
	}
	var ids []string
	for _, j := range jobs {
		if pbs.NamesJob(given, j.Job.ID) {
			ids = append(ids, j.Job.ID)
		}
	}
	switch {
	case len(ids) == 0 || slices.Contains(ids, given):
		return given, nil
	case len(ids) > 1:
		return "", &api.Error{Status: http.StatusConflict, Kind: api.KindTMNotFound,
			Message: fmt.Sprintf("job %s: several match, name one by its id: %s", given, strings.Join(ids, ", "))}
	}
	return ids[0], nil
}

// Retry calls the daemon at socket, and again after errors that may pass, for up to wait. A call
// that failed may have been carried out nevertheless, so a second one must do no harm.
func Retry[T any](
	ctx context.Context, socket string, wait time.Duration, call func(*api.Client) (T, error),
) (T, error) {
	until := time.Now().Add(wait)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		answer, err := once(socket, call)
		if err == nil || !mayPass(err, socket) || time.Now().After(until) {
			return answer, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return answer, err
		}
	}
}

func once[T any](socket string, call func(*api.Client) (T, error)) (answer T, err error) {
	client, err := api.Dial(socket)
	if err != nil {
		return answer, err
	}
	defer client.Close()
	return call(client)
}

// mayPass reports whether a failed call is worth a retry. The daemon may be restarting, for example
// for an upgrade, may have ended during the call, or may be too busy.
func mayPass(err error, socket string) bool {
	if errors.Is(err, api.ErrNoHost) {
		return api.HasServed(socket)
	}
	if hostapi.KindOf(err) == hostapi.KindBusy || errors.Is(err, api.ErrSilent) {
		return true
	}
	broken := []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE}
	return slices.ContainsFunc(broken, func(b error) bool { return errors.Is(err, b) })
}

// Exec executes a command in this process, which is already in the job. The outcome of the attach
// changes env. Exec returns only if it fails.
func Exec(command, env []string, out *hostapi.Outcome) error {
	path, err := exec.LookPath(command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return err
	}
	// Otherwise MPICH 1 starts its processes in a separate group. pbs_attach does the same.
	env = changed(set(env, "MPICH_PROCESS_GROUP", "no"), out)
	err = syscall.Exec(path, command, env)
	if errors.Is(err, unix.ENOEXEC) { // a script without an interpreter line, which execvp(3) runs as well
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, command[1:]...), env)
	}
	return fmt.Errorf("exec %s: %w", path, err)
}

// InSession runs this program again with args in a new session, and returns its exit status.
// setsid(2) fails for a process group leader, so a child calls it.
func InSession(args []string) (status int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.Command(self, args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	err = child.Run()
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited) && exited.Exited():
		return exited.ExitCode(), nil
	case errors.As(err, &exited): // pbs_attach's own answer to a signal
		return 2, nil
	}
	return 0, err
}

// ErrorName returns an error's name in PBS's task manager (tm_.h).
func ErrorName(err error) string {
	var e *api.Error
	if errors.As(err, &e) {
		return e.TM()
	}
	return "TM_ESYSTEM"
}

// changed returns an environment with the hooks' changes.
func changed(env []string, out *hostapi.Outcome) []string {
	for name, value := range out.SetEnv {
		env = set(env, name, value)
	}
	for _, name := range out.UnsetEnv {
		env = unset(env, name)
	}
	return env
}

func set(env []string, name, value string) []string { return append(unset(env, name), name+"="+value) }

func unset(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, name+"=")
	})
}

// Here returns this host's name for a message.
func Here() string {
	name, err := pbs.HostName()
	if err != nil {
		return "here"
	}
	return name
}

// IsHost reports whether host is the host of that name, or an address or short form of it.
func IsHost(host, name string) bool {
	if ip := net.ParseIP(host); ip != nil && host != name {
		addrs, err := net.LookupIP(name)
		return err == nil && slices.ContainsFunc(addrs, ip.Equal)
	}
	return pbs.SameHost(name, host)
}
