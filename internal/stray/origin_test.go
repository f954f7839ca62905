package stray

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// The connection of root's sshd goes before the one of the environment, and so does logind's word.
func TestOriginIsTheConnectionOfRootsSSHD(t *testing.T) {
	const lie = "SSH_CONNECTION=203.0.113.5 1 203.0.113.6 22"
	real := &hostapi.Origin{Local: "10.0.0.2:22", Remote: "10.0.0.1:40002"} // a row of table
	f := newFixture(t)
	f.write("net/tcp", table)
	f.process(1, 0, 1, 0, 0, "init", "0::/init.scope\n")
	f.process(20, 1, 20, 0, 10, "sshd", "0::/x\n")
	f.process(21, 1, 21, 0, 10, "sshd", "0::/x\n")
	f.process(22, 1, 22, 1000, 10, "sshd", "0::/x\n") // a user's own
	for _, pid := range []string{"20", "22"} {
		must.NoError(t, os.MkdirAll(filepath.Join(f.dir, pid, "fd"), 0o755))
		must.NoError(t, os.Symlink("socket:[4712]", filepath.Join(f.dir, pid, "fd/4")))
	}
	sessions := t.TempDir()
	for name, text := range map[string]string{"1": "REMOTE=1\nREMOTE_HOST=127.0.0.1\n",
		"2": "REMOTE=1\nREMOTE_HOST=203.0.113.5\n",
		"3": "REMOTE=1\nREMOTE_HOST=localhost\n", "4": "REMOTE=0\n", "6": "REMOTE_HOST=::1\n"} {
		must.NoError(t, os.WriteFile(filepath.Join(sessions, name), []byte(text), 0o644))
	}
	session := func(id string) string { return "0::/user.slice/user-1000.slice/session-" + id + ".scope\n" }
	for i, tt := range []struct {
		name   string
		parent int
		cgroup string
		env    string
		want   *hostapi.Origin
		gone   bool
		login  bool
	}{
		{"below sshd", 20, "0::/x\n", lie, real, false, true},
		{"below sshd, with an empty environment", 20, "0::/x\n", "", real, false, true},
		{"below an sshd without a connection", 21, "0::/x\n", lie, parseConnection(lie[len("SSH_CONNECTION="):]), true,
			true},
		{"below a user's own sshd", 22, "0::/x\n", "", nil, false, false},
		{"a lie", 1, "0::/x\n", lie, parseConnection(lie[len("SSH_CONNECTION="):]), true, false},
		{"a session from this host", 1, session("1"), "", nil, false, false},
		{"a session from another host", 1, session("2"), "", nil, false, true},
		{"a session from this host, by name", 1, session("3"), "", nil, false, false},
		{"a session at the console", 1, session("4"), "", nil, false, true},
		{"a session that is not known", 1, session("5"), "", nil, false, true},
		{"a session from this host, by IPv6", 1, session("6"), "", nil, false, false},
	} {
		pid := 100 + i
		f.process(pid, tt.parent, pid, 1000, 20, "sleep", tt.cgroup, tt.env)
		procfs := f.open()
		p, err := proc.Read(procfs, pid)
		must.NoError(t, err)
		r := reader(procfs, jobOf(nil))
		r.Sessions = sessions
		got, err := r.Read(p)
		must.NoError(t, err)
		if d := cmp.Diff(tt.want, got.SSH); d != "" || got.Gone != tt.gone || got.LoggedIn() != tt.login {
			t.Errorf("%s: gone %v, login %v, -want +got:\n%s", tt.name, got.Gone, got.LoggedIn(), d)
		}
	}
}
