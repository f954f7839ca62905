// Package passwd finds users where the host's name services have them: LDAP or sssd, for example.
// Package os/user does so only if a program is linked with the C library, which hookhost's programs
// are not. It reads /etc/passwd and /etc/group.
package passwd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// patience is how long name services may take. An event's alarm is longer.
const patience = 10 * time.Second

// notFound is the exit status of getent(1) for a key that does not exist.
const notFound = 2

// ErrServices means that name services could not be asked, or did not answer in time. So it is
// unknown whether there is such a user.
var ErrServices = errors.New("name services do not answer")

// Lookup returns the user of that name. If there is none, the error is a user.UnknownUserError. A
// user who is not in /etc/passwd costs a process: getent(1).
func Lookup(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if !errors.As(err, new(user.UnknownUserError)) {
		return u, err
	}
	found, gerr := getent(name)
	if gerr != nil {
		return nil, gerr
	}
	// getent takes digits for a uid.
	if _, digits := strconv.Atoi(name); found == nil || digits == nil && found.Username != name {
		return nil, err
	}
	return found, nil
}

// LookupID returns the user of a uid, as Lookup. Without one, the error is a
// user.UnknownUserIdError.
func LookupID(uid int) (*user.User, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if !errors.As(err, new(user.UnknownUserIdError)) {
		return u, err
	}
	found, gerr := getent(strconv.Itoa(uid))
	if gerr != nil {
		return nil, gerr
	}
	if found == nil {
		return nil, err
	}
	return found, nil
}

// Groups returns the gids of a user: the user's own group and those that have the user as a member.
// It costs a process: id(1).
func Groups(name string) ([]uint32, error) {
	out, err := ask("id", "-G", "--", name)
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", name, err)
	}
	var gids []uint32
	for field := range strings.FieldsSeq(string(out)) {
		gid, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of user %s: id: %w", name, err)
		}
		gids = append(gids, uint32(gid))
	}
	return gids, nil
}

// getent returns the user whose name or uid is key, or nil.
func getent(key string) (*user.User, error) {
	out, err := ask("getent", "passwd", "--", key)
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == notFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up user %s: %w: %w", key, ErrServices, err)
	}
	// name:password:uid:gid:comment:home:shell, passwd(5)
	line, _, _ := strings.Cut(string(out), "\n")
	f := strings.Split(line, ":")
	if len(f) != 7 {
		return nil, fmt.Errorf("look up user %s: getent passwd: %q is no line of passwd", key, line)
	}
	comment, _, _ := strings.Cut(f[4], ",")
	return &user.User{Username: f[0], Uid: f[2], Gid: f[3], Name: comment, HomeDir: f[5]}, nil
}

// ask runs a program of the system, which a job's owner must not influence, and returns its output.
func ask(program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/"+program, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, "/", time.Second
	out, err := cmd.Output()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: still running after %v", program, patience)
	case errors.As(err, &ended) && len(bytes.TrimSpace(ended.Stderr)) > 0:
		return nil, fmt.Errorf("%s: %s: %w", program, bytes.TrimSpace(ended.Stderr), err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return out, nil
}
