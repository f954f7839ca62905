package pam

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A user can put variables in front of those of pam_exec.
func TestLastVariableCounts(t *testing.T) {
	environ := []byte(strings.Join([]string{"PAM_USER=root", "XPAM_USER=x", "PAM_TYPE=", "PAM_USER=nobody",
		"PAM_USERS=y", "PAM_TYPE=account", ""}, "\x00"))
	for name, want := range map[string]string{"PAM_USER": "nobody", "PAM_TYPE": "account", "PAM_RHOST": ""} {
		if got := Of(environ, name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	login, err := Read(t.Context(), append(environ, "PBS_JOBID=7.x\x00"...))
	if err != nil || login.User != "nobody" || login.UID != 65534 || login.Job != "7.x" || len(login.Groups) != 1 {
		t.Errorf("%+v, %v", login, err)
	}
	if _, err := Read(t.Context(), []byte("PAM_USER=no such user\x00")); err == nil {
		t.Error("an unknown user was found")
	}
}

// Variables of the user's have no effect on the programs that look up users, which run as root.
func TestLookupsHaveNoEnvironment(t *testing.T) {
	loaded := filepath.Join(t.TempDir(), "loaded")
	t.Setenv("LD_DEBUG", "files")
	t.Setenv("LD_DEBUG_OUTPUT", loaded)
	if _, err := Read(t.Context(), []byte("PAM_USER=nobody\x00")); err != nil {
		t.Error(err)
	}
	Unknown(t.Context(), []string{"root"})
	if files, _ := filepath.Glob(loaded + "*"); len(files) > 0 {
		t.Errorf("the dynamic linker obeyed: %v", files)
	}
}

func TestUnknownNames(t *testing.T) {
	got := Unknown(t.Context(), []string{"root", "@root", "@no such group", "nobody", "no-such-user"})
	must.Equal(t, "names", []string{"@no such group", "no-such-user"}, got)
}
