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

// ErrNoNVML says that NVML cannot be asked on this machine, which is no failure. Its library or its
// driver is not there, or the program that asks is not installed. The program may also not run with
// this machine's C library.
var ErrNoNVML = errors.New("no NVML")

const (
	// nvmlAnswer is the longest answer in bytes: accounting mode remembers some 4000 processes a
	// GPU, at about 120 bytes each.
	nvmlAnswer = 8 << 20
	// nvmlReap is how long a killed program may take to die. The program needs no more than a
	// moment unless it hangs in the kernel.
	nvmlReap = time.Second
)

// AskNVML runs the program (cmd/nvml, an absolute path) and returns the GPUs that there are.
// AskNVML fails with ErrNoNVML when there is nothing to ask.
//
// A call takes no longer than the limit and a second, also when a driver call never returns. The
// program is killed then. The following calls fail at once while a killed program does not die.
func AskNVML(ctx context.Context, program string, limit time.Duration) (*NVIDIA, error) {
	return ask[NVIDIA](ctx, program, limit, "inventory")
}

// AskNVMLUsage is AskNVML for what some devices (GPUs or MIG instances) did. A device that does not
// answer has an Error in the answer.
func AskNVMLUsage(ctx context.Context, program string, limit time.Duration, uuids ...string) (*NVIDIAUsage, error) {
	return ask[NVIDIAUsage](ctx, program, limit, append([]string{"usage"}, uuids...)...)
}

// AskNVMLSample is AskNVML for what some devices (GPUs or MIG instances) do, since a time and now.
func AskNVMLSample(
	ctx context.Context, program string, limit time.Duration, since time.Time, uuids ...string,
) (*NVIDIASamples, error) {
	args := append([]string{"sample", strconv.FormatInt(since.UnixMicro(), 10)}, uuids...)
	return ask[NVIDIASamples](ctx, program, limit, args...)
}

// NVMLAccountingOn turns accounting mode on for all GPUs that have it, under the same terms as
// AskNVML. Idempotent. The driver forgets it when it is unloaded, which without persistence mode is
// when nobody uses a GPU.
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
	// The program's own limit is for the case that this process is killed meanwhile.
	cmd := exec.Command(program, append([]string{"--limit", (limit + 10*time.Second).String()}, args...)...)
	out, complaint := &boundedBuffer{most: nvmlAnswer}, &boundedBuffer{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // NVML starts nvidia-modprobe: they are killed together
	cmd.WaitDelay = nvmlReap                             // for one that left the session and holds the pipes
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		// ENOENT is also the answer when the program's dynamic linker is missing.
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOEXEC) {
			return nil, fmt.Errorf("%w: %w", ErrNoNVML, err)
		}
		return nil, err
	}
	pid := cmd.Process.Pid
	ended := awaitEnd(pid)
	select {
	case <-ended:
		unix.Kill(-pid, unix.SIGKILL) // what it left behind; the zombie holds the number
		cmd.Wait()                    // ProcessState says what came of it
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

// awaitEnd closes the channel when a child has ended, and leaves it a zombie: its number and its
// group's are its own until Wait.
func awaitEnd(pid int) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	return ended
}

// judged is what a program that has ended answered.
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
		// The dynamic linker's word: the C library is older than the one that the program was built
		// with, or another one.
		return nil, fmt.Errorf("%w: %s does not run here: %s", ErrNoNVML, cmd.Path, why)
	case why == "":
		return nil, fmt.Errorf("%s: %v", cmd.Path, cmd.ProcessState)
	case code == 1:
		return nil, errors.New(why)
	default:
		return nil, fmt.Errorf("%s: %v: %s", cmd.Path, cmd.ProcessState, why)
	}
}

// boundedBuffer takes no more than most bytes. The writer's next write fails then.
type boundedBuffer struct {
	buf  bytes.Buffer // not embedded: io.Copy would find its ReadFrom, which has no bound
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
