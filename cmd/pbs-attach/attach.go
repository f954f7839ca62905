package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/internal/tinyhttp"
)

// silence is how long to wait for a sign of life, the same as in hookhost (internal/api/client.go).
const silence = 5 * time.Second

// maxAnswer is much larger than any answer to an attach.
const maxAnswer = 1 << 20

// request is an api.AttachRequest for a process of this host.
type request struct {
	Job string `json:"job"`
	PID int    `json:"pid"`
}

// answer is the daemon's answer to an attach: an api.Attached, or an api.Error.
type answer struct {
	Job     string
	Outcome struct {
		Reject   bool
		Message  string
		SetEnv   map[string]string `json:"set_env"`
		UnsetEnv []string          `json:"unset_env"`
	}
	Error string
	Kind  string
}

// ask asks the daemon to attach the process.
func (c *call) ask() (*answer, error) {
	pid := c.pid
	if pid == 0 {
		pid = os.Getpid()
	}
	body, err := json.Marshal(request{c.job, pid})
	if err != nil {
		return nil, err
	}
	reply, err := tinyhttp.Post(tinyhttp.Request{
		Socket: c.socket,
		Path:   "/v1/attach",
		Body:   body,
		Sign:   silence,
		Most:   maxAnswer,
	})
	if err != nil {
		return nil, err
	}
	a := &answer{}
	err = json.Unmarshal(reply.Body, a)
	if err == nil && a.Job == "" && a.Error == "" {
		err = syscall.EBADMSG
	}
	return a, err
}

// forHookhost reports whether hookhost must handle the answer. hookhost waits for a daemon that is
// too busy, explains wrong arguments, and escapes control characters for the terminal. A refusal
// may contain a process's name.
func (a *answer) forHookhost() bool {
	obeyed := func(r rune) bool { return r < ' ' || r > '~' }
	return a.Kind == "busy" || a.Kind == "malformed" || strings.ContainsFunc(a.refusal(), obeyed)
}

// refusal returns why the process is not in the job, or "" if it is. The reason is an error name of
// PBS's task manager.
func (a *answer) refusal() string {
	kind, message := a.Kind, a.Error
	switch {
	case a.Outcome.Reject:
		kind, message = "TM_EHOOK", a.Outcome.Message
	case a.Error == "":
		return ""
	case !strings.HasPrefix(a.Kind, "TM_"):
		kind = "TM_ESYSTEM"
	}
	return kind + ": " + strings.ReplaceAll(message, "\n", "; ")
}

// exec executes the command with execve, in its environment as changed by hooks. It returns only if
// that fails.
func (c *call) exec(a *answer) {
	path, err := exec.LookPath(c.command[0]) // uses the PATH of this process, not of the command
	if err != nil {
		return
	}
	// Otherwise MPICH 1 starts its processes in a separate group. pbs_attach does the same.
	os.Setenv("MPICH_PROCESS_GROUP", "no")
	for name, value := range a.Outcome.SetEnv {
		os.Setenv(name, value)
	}
	for _, name := range a.Outcome.UnsetEnv {
		os.Unsetenv(name)
	}
	syscall.Exec(path, c.command, os.Environ())
}
