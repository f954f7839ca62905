package pam

import (
	"bytes"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/passwd"
)

// variable returns a variable of an environment in the form of /proc/PID/environ. pam_exec(8) puts
// its variables behind those of PAM's environment, which a user may have set (~/.pam_environment).
// So of several variables of that name the last one counts. Go's os package returns the first.
func variable(environ []byte, name string) string {
	value := ""
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if v, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
			value = string(v)
		}
	}
	return value
}

// Read returns the login that an environment of pam_exec describes. It does not know the user's id
// and groups.
func Read(environ []byte) api.Login {
	return api.Login{
		User: variable(environ, "PAM_USER"), UID: -1, From: variable(environ, "PAM_RHOST"),
		Job: variable(environ, "PBS_JOBID"),
	}
}

// Identify adds the user's id and groups to a login, or why the groups are not known. It fails if
// the user is not known.
func Identify(login *api.Login) error {
	u, err := passwd.Lookup(login.User)
	if err != nil {
		return fmt.Errorf("pam: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return fmt.Errorf("pam: user %s: uid %q: want a number", login.User, u.Uid)
	}
	login.UID = uid
	if login.UID == 0 {
		return nil // whose login does not wait for a name service
	}
	if login.Groups, err = passwd.GroupNames(login.User); err != nil {
		login.NoGroups = err.Error()
	}
	return nil
}

// Unknown returns the users and @groups of a list that do not exist. It returns none if name
// services do not answer.
func Unknown(names []string) []string {
	var unknown []string
	for _, name := range names {
		var err error
		if group, is := strings.CutPrefix(name, "@"); is {
			_, err = passwd.LookupGroup(group)
		} else {
			_, err = passwd.Lookup(name)
		}
		if errors.Is(err, passwd.ErrServices) {
			return nil
		}
		if errors.As(err, new(user.UnknownUserError)) || errors.As(err, new(user.UnknownGroupError)) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
