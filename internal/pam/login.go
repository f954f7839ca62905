package pam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/api"
)

// Of returns a variable of an environment in the form of /proc/PID/environ. pam_exec(8) puts its
// variables behind those of PAM's environment, which a user may have set (~/.pam_environment). So
// of several variables of that name the last one counts. Go's os package returns the first.
func Of(environ []byte, name string) string {
	value := ""
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if v, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
			value = string(v)
		}
	}
	return value
}

// lookupTime bounds how long the node's name services may take.
const lookupTime = 10 * time.Second

// These programs ask the name services. This program cannot do that, since it is linked without
// libc. pam_exec sets no PATH.
const (
	idProgram     = "/usr/bin/id"
	getentProgram = "/usr/bin/getent"
)

// ask runs one of these programs without an environment. A user may have set variables that
// pam_exec passes on (~/.pam_environment): LD_PRELOAD would run the user's code as root.
func ask(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{}
	return cmd.Output()
}

// Read returns the login that an environment of pam_exec describes. It does not know the user's id
// and groups.
func Read(environ []byte) api.Login {
	return api.Login{
		User: Of(environ, "PAM_USER"), UID: -1, From: Of(environ, "PAM_RHOST"), Job: Of(environ, "PBS_JOBID"),
	}
}

// Identify adds the user's id and groups to a login. It fails if the user is not known. Groups that
// cannot be found out are left out.
func Identify(ctx context.Context, login *api.Login) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	out, err := ask(ctx, idProgram, "-u", "--", login.User)
	if err == nil {
		login.UID, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return fmt.Errorf("look up user %q: %w", login.User, err)
	}
	if login.UID == 0 {
		return nil // whose login does not wait for a name service
	}
	// If a group has no name, id prints its number and fails.
	out, _ = ask(ctx, idProgram, "-Gnz", "--", login.User)
	login.Groups = strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	return nil
}

// noSuchName is getent's exit status for a name that does not exist.
const noSuchName = 2

// Unknown returns the users and @groups of a list that do not exist.
func Unknown(ctx context.Context, names []string) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		group, is := strings.CutPrefix(name, "@")
		database := "passwd"
		if is {
			database = "group"
		}
		var failed *exec.ExitError
		_, err := ask(ctx, getentProgram, database, "--", group)
		return !errors.As(err, &failed) || failed.ExitCode() != noSuchName
	})
}
