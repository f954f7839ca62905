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

// silence is as long as hookhost waits for a sign of life (internal/api/client.go).
const silence = 5 * time.Second

// maxAnswer is far more than an attach is answered with.
const maxAnswer = 1 << 20

// request is an api.AttachRequest for a process of this host.
type request struct {
	Job string `json:"job"`
	PID int    `json:"pid"`
}

// answer is what the daemon says to an attach: an api.Attached, or an api.Error.
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

// ask has the daemon take the process in.
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

// forHookhost says whether hookhost deals with the answer. hookhost waits for a daemon that is too
// busy, words what is wrong with the arguments, and escapes what a terminal obeys. A refusal may
// have a process's name in it.
func (a *answer) forHookhost() bool {
	obeyed := func(r rune) bool { return r < ' ' || r > '~' }
	return a.Kind == "busy" || a.Kind == "malformed" || strings.ContainsFunc(a.refusal(), obeyed)
}

// refusal returns why the process is not in the job, as PBS's task manager names it; "" when it is.
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

// exec is an execve of the command, with what hooks say of its environment. A return is a
// failure.
func (c *call) exec(a *answer) {
	path, err := exec.LookPath(c.command[0]) // by the PATH of this process, not by that of the command
	if err != nil {
		return
	}
	// MPICH 1 starts its processes in a group of their own otherwise, as pbs_attach knows.
	os.Setenv("MPICH_PROCESS_GROUP", "no")
	for name, value := range a.Outcome.SetEnv {
		os.Setenv(name, value)
	}
	for _, name := range a.Outcome.UnsetEnv {
		os.Unsetenv(name)
	}
	syscall.Exec(path, c.command, os.Environ())
}
