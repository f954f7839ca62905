package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// pbs_mom names a job's owner. On most clusters the node has its users from LDAP or sssd, and not
// in /etc/passwd. Here nss-systemd has the user. (The tests of internal/passwd use /run/userdb.)
func TestUserOfNameServicesHasJobs(t *testing.T) {
	n := newNode(t, "")
	const dir, user = "/etc/userdb", `{"userName":"hhtestldap","uid":61236,"gid":61236,"homeDirectory":"/"}`
	must.NoError(t, os.MkdirAll(dir, 0o755))
	t.Cleanup(func() { os.Remove(dir) })
	for _, name := range []string{"hhtestldap.user", "61236.user"} {
		path := filepath.Join(dir, name)
		t.Cleanup(func() { os.Remove(path) })
		must.NoError(t, os.WriteFile(path, []byte(user), 0o644))
	}
	if exec.Command("getent", "passwd", "hhtestldap").Run() != nil {
		kernfstest.Elsewhere(t, "nss-systemd: this machine's kernel tests have it")
	}
	for _, event := range []string{"execjob_begin", "execjob_end"} {
		if r := n.send(event, `{"job":{"id":"7.x","owner":{"user":"hhtestldap"},"resource_list":{"ncpus":1}}}`); r.status != 0 {
			t.Errorf("%s: %+v", event, r)
		}
	}
	r := n.hookhost("run", "--report=none", "-u", "hhtestldap", "--", "sh", "-c", "id -u; id -G; echo $USER $HOME")
	if r.status != 0 || r.stdout != "61236\n61236\nhhtestldap /\n" {
		t.Errorf("run: %+v", r)
	}
}
