package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/report"
)

// nobody is the user and the group of the command. They own no files.
const nobody = 65534

// maxOutput bounds what is kept of a command's output, for the log.
const maxOutput = 1000

// CheckCommand returns an error if path is not a program that can be run for each report.
func CheckCommand(path string) error {
	if err := plugin.CheckProgram(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode()&0o001 == 0 {
		err = fmt.Errorf("%s: mode %04o does not let nobody execute it", path, info.Mode().Perm())
	}
	return err
}

// runCommand runs the site's command as nobody, with the report as JSON on its standard input. It
// fails unless the command ends with status 0 before ctx does. Then it is killed with its process
// group. Its standard output is discarded, and it need not read its input.
func runCommand(ctx context.Context, path string, r *report.Report) error {
	if err := CheckCommand(path); err != nil {
		return err
	}
	var input bytes.Buffer
	if err := r.WriteJSON(&input); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8"}
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = "/", &input, time.Second
	said := &head{}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}},
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it has left a process in the background
		err = nil
	}
	if err == nil {
		return nil
	}
	if text := strings.Join(strings.Fields(string(said.text)), " "); text != "" {
		return fmt.Errorf("run %s: %w: %s", path, err, text)
	}
	return fmt.Errorf("run %s: %w", path, err)
}

// head holds the beginning of what is written to it.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxOutput-len(h.text))]...)
	return len(p), nil
}
