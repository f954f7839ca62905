package doctor

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
)

func TestLoginsAreExamined(t *testing.T) {
	const account = "account required pam_exec.so quiet stdout /usr/bin/hookhost pam account\n"
	const session = "session required pam_exec.so stdout type=open_session /usr/bin/hookhost --socket /x pam session\n"
	const variables = "session required pam_env.so user_readenv=1 envfile=/etc/default/locale\n"
	both := config.PAM{Restrict: true, Adopt: "newest"}
	for _, tt := range []struct {
		cfg     config.PAM
		stack   string
		unknown []string
		want    string // "" for ok
	}{
		{both, account + session, nil, ""},
		{config.PAM{Restrict: true, Adopt: "off"}, account, nil, ""},
		{config.PAM{Adopt: "deny"}, session, nil, ""},
		{both, account + "# " + session, nil, "does not call hookhost pam session"},
		{both, "", nil, "hookhost pam account and hookhost pam session"},
		{both, account + session + variables, nil, ""},
		{both, account + "#" + variables + session, nil, ""},
		{both, account + variables + session, nil, "before it calls hookhost"},
		{both, account + "@include common-account\n" + session, nil, ""},
		{both, "@include common-account\n" + account + session, nil, "may let users in before that"},
		{both, "account include password-auth\n" + account + session, nil, "may let users in before that"},
		{both, "auth include password-auth\n" + account + session, nil, ""},
		{both, account + "@include common-session\n" + session, nil, ""},
		{both, account + session + "@include common-session\n", nil, "takes the session out of the job"},
		{both, account + session + "-session optional pam_systemd.so\n", nil, "takes the session out of the job"},
		{both, account + session + "auth include password-auth\n", nil, ""},
		{both, account + session + "session include password-auth\n", nil, "takes the session out of the job"},
		{both, account + session + "session required pam_limits.so\n", nil, "before pam_limits"},
		{both, account + "session required pam_limits.so\n" + session, nil, ""},
		{both, strings.Replace(account, " stdout", "", 1) + session, nil, "pam account without stdout"},
		{both, account + strings.Replace(session, " stdout", "", 1), nil, "pam session without stdout"},
		{both, account + strings.Replace(session, "pam_exec.so stdout", "pam_script.so", 1), nil, ""},
		{config.PAM{Restrict: true, Adopt: "off"}, account, []string{"@admin"}, "no such user or group: @admin"},
	} {
		f := examineStack(tt.cfg, tt.stack, "", tt.unknown)
		if (f.Status == OK) != (tt.want == "") || !strings.Contains(f.Found, tt.want) {
			t.Errorf("%+v with %q: %+v", tt.cfg, tt.stack, f)
		}
	}
}

// sshd -T prints one setting a line. It fails without sshd, and for users.
func TestSSHDHasToUsePAM(t *testing.T) {
	const stack = "account required pam_exec.so quiet stdout /usr/bin/hookhost pam account\n"
	for sshd, want := range map[string]Status{
		"": OK, "port 22\nusepam yes\n": OK, "port 22\nusepam no\n": Degraded,
		"port 22\n": Degraded, // built without PAM
	} {
		cfg := config.PAM{Restrict: true, Adopt: config.AdoptOff}
		if f := examineStack(cfg, stack, sshd, nil); f.Status != want {
			t.Errorf("%q: %+v", sshd, f)
		}
	}
}
