package mom

import (
	"os/user"
	"regexp"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/proc"
)

// runAs has the program run as another user, with all of that user's groups.
func (s *Spec) runAs(owner hostapi.Owner) error {
	u, err := user.LookupId(strconv.Itoa(owner.UID))
	if err != nil {
		return err
	}
	s.Env = environmentOf(u, s.Env)
	s.Credential, err = proc.Credential(u, owner)
	return err
}

// passed matches the variables of root's that another user's program gets: those of the terminal,
// of languages, of PATH and of the node's daemon.
var passed = regexp.MustCompile(`^(TERM|COLORTERM|LANG|LANGUAGE|LC_[A-Z]+|TZ|PATH|HOOKHOST_[A-Z_]+)=`)

// environmentOf returns the environment of a program that runs as another user. The rest of root's
// is not the user's to read, nor is root's HOME the user's.
func environmentOf(u *user.User, roots []string) []string {
	env := []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
	for _, variable := range roots {
		if passed.MatchString(variable) {
			env = append(env, variable)
		}
	}
	return env
}
