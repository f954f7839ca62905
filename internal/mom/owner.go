package mom

import (
	"os/user"
	"regexp"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/passwd"
)

// runAs makes the program run as another user, with all of that user's groups.
func (s *Spec) runAs(owner hostapi.Owner) error {
	u, err := passwd.LookupID(owner.UID)
	if err != nil {
		return err
	}
	s.Env = environmentOf(u, s.Env)
	s.Credential, err = credentialOf(u, owner)
	return err
}

// passed matches the variables of root that are passed to another user's program: those for the
// terminal, languages, PATH and the node's daemon.
var passed = regexp.MustCompile(`^(TERM|COLORTERM|LANG|LANGUAGE|LC_[A-Z]+|TZ|PATH|HOOKHOST_[A-Z_]+)=`)

// environmentOf returns the environment of a program that runs as another user. That user must not
// read root's other variables, and has a different HOME.
func environmentOf(u *user.User, roots []string) []string {
	env := []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
	for _, variable := range roots {
		if passed.MatchString(variable) {
			env = append(env, variable)
		}
	}
	return env
}

// credentialOf returns the credential for processes of a job's owner: the owner's ids, and all
// groups of that user.
func credentialOf(u *user.User, o hostapi.Owner) (*syscall.Credential, error) {
	gids, err := passwd.Groups(u.Username)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID), Groups: gids}, nil
}
