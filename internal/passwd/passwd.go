// Package passwd finds users and groups where the host's name services have them: LDAP or sssd, for
// example. Package os/user does so only if a program is linked with the C library, which hookhost's
// programs are not. It reads /etc/passwd and /etc/group.
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
	if errors.As(err, new(user.UnknownUserError)) {
		return getentUser(name, byName, err)
	}
	return u, err
}

// LookupID returns the user of a uid, as Lookup. Without one, the error is a
// user.UnknownUserIdError.
func LookupID(uid int) (*user.User, error) {
	id := strconv.Itoa(uid)
	u, err := user.LookupId(id)
	if errors.As(err, new(user.UnknownUserIdError)) {
		return getentUser(id, byNumber, err)
	}
	return u, err
}

// LookupGroup returns the group of that name, as Lookup. Without one, the error is a
// user.UnknownGroupError.
func LookupGroup(name string) (*user.Group, error) {
	g, err := user.LookupGroup(name)
	if !errors.As(err, new(user.UnknownGroupError)) {
		return g, err
	}
	// name:password:gid:members, group(5)
	f, err := getent("group", name, byName, 4, err)
	if err != nil {
		return nil, err
	}
	return &user.Group{Name: f[0], Gid: f[2]}, nil
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

// GroupNames returns the names of the groups that Groups returns. Instead of a name that is unknown
// there is the gid in digits.
func GroupNames(name string) ([]string, error) {
	out, err := ask("id", "-Gnz", "--", name)
	// id(1) fails if a name is unknown, with all of its output.
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || len(out) == 0) {
		return nil, fmt.Errorf("groups of user %s: %w", name, err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

// How a key is meant. getent takes digits for a number in any case.
const (
	byName = iota
	byNumber
)

// getentUser returns a user. If there is none, the error is unknown.
func getentUser(key string, by int, unknown error) (*user.User, error) {
	// name:password:uid:gid:comment:home:shell, passwd(5)
	f, err := getent("passwd", key, by, 7, unknown)
	if err != nil {
		return nil, err
	}
	comment, _, _ := strings.Cut(f[4], ",")
	return &user.User{Username: f[0], Uid: f[2], Gid: f[3], Name: comment, HomeDir: f[5]}, nil
}

// getent returns the fields of an entry of a database. If there is none, the error is unknown.
func getent(database, key string, by, fields int, unknown error) ([]string, error) {
	out, err := ask("getent", database, "--", key)
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == notFound {
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s in %s: %w: %w", key, database, ErrServices, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	f := strings.Split(line, ":")
	if len(f) != fields {
		return nil, fmt.Errorf("look up %s: getent %s: %q does not have %d fields", key, database, line, fields)
	}
	if _, err := strconv.Atoi(key); err == nil && by == byName && f[0] != key {
		return nil, unknown
	}
	return f, nil
}

// ask runs a program of the system and returns its output, also if it fails. The program has no
// variables: hookhost pam has some that a job's owner may have set, and LD_PRELOAD would run the
// owner's code as root.
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
		return out, fmt.Errorf("%s: %s: %w", program, bytes.TrimSpace(ended.Stderr), err)
	case err != nil:
		return out, fmt.Errorf("%s: %w", program, err)
	}
	return out, nil
}
