package pam

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// A user can put variables in front of those of pam_exec.
func TestLastVariableCounts(t *testing.T) {
	environ := strings.Join([]string{"PAM_USER=root", "XPAM_USER=x", "PBS_JOBID=", "PAM_USER=nobody", "PAM_USERS=y",
		"PBS_JOBID=7.x", ""}, "\x00")
	must.Equal(t, "login", api.Login{User: "nobody", UID: -1, Job: "7.x"}, Read([]byte(environ)))
}

func TestUserHasIDAndGroups(t *testing.T) {
	login := api.Login{User: "nobody", UID: -1}
	if err := Identify(&login); err != nil || login.UID != 65534 || len(login.Groups) != 1 {
		t.Errorf("%+v, %v", login, err)
	}
	unknown := api.Login{User: "no such user", UID: -1}
	if err := Identify(&unknown); err == nil || unknown.UID != -1 {
		t.Errorf("an unknown user: %+v, %v", unknown, err)
	}
}

func TestUnknownNames(t *testing.T) {
	got := Unknown([]string{"root", "@root", "@no such group", "nobody", "no-such-user"})
	must.Equal(t, "names", []string{"@no such group", "no-such-user"}, got)
}
