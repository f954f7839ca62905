package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoNVML means that NVML cannot be asked on this machine, which is not a failure. Its library,
// its driver or the program that asks is missing, or the program does not work with this machine's
// C library.
var ErrNoNVML = errors.New("no NVML")

const (
	// nvmlAnswer is the longest answer in bytes. Accounting mode remembers some 4000 processes per
	// GPU, at about 120 bytes each.
	nvmlAnswer = 8 << 20
	// nvmlReap is how long a killed program may take to die, which is only a moment unless it hangs
	// in the kernel.
	nvmlReap = time.Second
)

// AskNVML runs the program (cmd/nvml, an absolute path) and returns the node's GPUs. It fails with
// ErrNoNVML if NVML is not available.
//
// A call takes at most limit plus a second, even if a driver call never returns: the program is
// killed then. While a killed program does not die, further calls fail at once.
func AskNVML(ctx context.Context, program string, limit time.Duration) (*NVIDIA, error) {
	return ask[NVIDIA](ctx, program, limit, "inventory")
}

// AskNVMLUsage is AskNVML for how some devices (GPUs or MIG instances) were used. A device that
// does not answer has an Error.
func AskNVMLUsage(ctx context.Context, program string, limit time.Duration, uuids ...string) (*NVIDIAUsage, error) {
	return ask[NVIDIAUsage](ctx, program, limit, append([]string{"usage"}, uuids...)...)
}

// AskNVMLSample is AskNVML for how some devices (GPUs or MIG instances) are being used, from a
// given time until now.
func AskNVMLSample(
	ctx context.Context, program string, limit time.Duration, since time.Time, uuids ...string,
) (*NVIDIASamples, error) {
	args := append([]string{"sample", strconv.FormatInt(since.UnixMicro(), 10)}, uuids...)
	return ask[NVIDIASamples](ctx, program, limit, args...)
}

// NVMLAccountingOn turns on accounting mode for all GPUs that support it, with the time limits of
// AskNVML. It is idempotent. The driver forgets the mode when it is unloaded. Without persistence
// mode that happens whenever nobody uses a GPU.
func NVMLAccountingOn(ctx context.Context, program string, limit time.Duration) error {
	_, err := runNVML(ctx, program, limit, "account", "on")
	return err
}

func ask[A any](ctx context.Context, program string, limit time.Duration, args ...string) (*A, error) {
	out, err := runNVML(ctx, program, limit, args...)
	if err != nil {
		return nil, err
	}
	answer := new(A)
	if err := json.Unmarshal(out, answer); err != nil {
		return nil, fmt.Errorf("ask NVML %s: answer of %s: %w", args[0], program, err)
	}
	return answer, nil
}

func runNVML(ctx context.Context, program string, limit time.Duration, args ...string) ([]byte, error) {
	out, err := runBounded(ctx, program, limit, args...)
	if err != nil {
		return nil, fmt.Errorf("ask NVML %s: %w", args[0], err)
	}
	return out, nil
}

func runBounded(ctx context.Context, program string, limit time.Duration, args ...string) ([]byte, error) {
	if !filepath.IsAbs(program) {
		return nil, fmt.Errorf("program %q: not an absolute path", program)
	}
	if err := hung.err("nvml program"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// The program's limit matters only if this process is killed meanwhile.
	cmd := exec.Command(program, append([]string{"--limit", (limit + 10*time.Second).String()}, args...)...)
	out, complaint := &boundedBuffer{most: nvmlAnswer}, &boundedBuffer{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // NVML starts nvidia-modprobe; both are killed together
	cmd.WaitDelay = nvmlReap                             // in case a process left the session and holds the pipes
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		// ENOENT also means that the program's dynamic linker is missing.
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOEXEC) {
			return nil, fmt.Errorf("%w: %w", ErrNoNVML, err)
		}
		return nil, err
	}
	pid := cmd.Process.Pid
	ended := awaitEnd(pid)
	select {
	case <-ended:
		unix.Kill(-pid, unix.SIGKILL) // the rest of its group; the zombie still holds the number
		cmd.Wait()                    // ProcessState has the result
		return out.judged(cmd, complaint)
	case <-ctx.Done():
	}
	unix.Kill(-pid, unix.SIGKILL)
	killed := time.NewTimer(nvmlReap)
	defer killed.Stop()
	select {
	case <-ended:
		cmd.Wait()
		return nil, fmt.Errorf("no answer within %v: %w", limit, ctx.Err())
	case <-killed.C:
		over := hung.add("nvml program", fmt.Sprintf("pid %d hangs in the kernel", pid), begun)
		go func() {
			<-ended
			cmd.Wait()
			over()
		}()
		return nil, fmt.Errorf("no answer within %v, and pid %d hangs in the kernel, where SIGKILL does not end it: %w",
			limit, pid, ctx.Err())
	}
}

// awaitEnd closes the channel when a child has ended, and leaves it a zombie. Until Wait its pid
// and its group's cannot be reused.
func awaitEnd(pid int) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	return ended
}

// judged returns the answer of a program that has ended.
func (b *boundedBuffer) judged(cmd *exec.Cmd, complaint *boundedBuffer) ([]byte, error) {
	why, _, _ := strings.Cut(strings.TrimSpace(complaint.buf.String()), "\n")
	why, ours := strings.CutPrefix(why, "nvml: ")
	code := cmd.ProcessState.ExitCode()
	switch {
	case b.over:
		return nil, fmt.Errorf("answer of %s: longer than %d bytes", cmd.Path, b.most)
	case code == 0:
		return b.buf.Bytes(), nil
	case code == 3:
		return nil, fmt.Errorf("%w: %s", ErrNoNVML, strings.TrimPrefix(why, "no NVML here: "))
	case !ours && why != "" && (code == 1 || code == 127):
		// The dynamic linker complains: the C library is a different one, or older than the one the
		// program was built with.
		return nil, fmt.Errorf("%w: %s does not run here: %s", ErrNoNVML, cmd.Path, why)
	case why == "":
		return nil, fmt.Errorf("%s: %v", cmd.Path, cmd.ProcessState)
	case code == 1:
		return nil, errors.New(why)
	default:
		return nil, fmt.Errorf("%s: %v: %s", cmd.Path, cmd.ProcessState, why)
	}
}

// boundedBuffer takes no more than most bytes, after which writes fail.
type boundedBuffer struct {
	buf  bytes.Buffer // not embedded: io.Copy would use its ReadFrom, which has no limit
	most int
	over bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.most {
		b.over = true
		return 0, errors.New("too long")
	}
	return b.buf.Write(p)
}
