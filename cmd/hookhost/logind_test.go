package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// stopDelay is longer than systemd-logind leaves a user's directory after the last session
// (UserStopDelaySec, 10 seconds).
const stopDelay = 12 * time.Second

// guestUser adds a user to a guest, whose systemd-logind has to know the users of PAM's sessions.
func guestUser(t *testing.T, name string, uid int) {
	t.Helper()
	for file, line := range map[string]string{
		"/etc/passwd": fmt.Sprintf("%s:x:%d:%d::/:/bin/sh", name, uid, uid),
		"/etc/group":  fmt.Sprintf("%s:x:%d:", name, uid),
		"/etc/shadow": name + ":*:19000:0:99999:7:::",
	} {
		info, err := os.Stat(file)
		must.NoError(t, err)
		text, err := os.ReadFile(file)
		must.NoError(t, err, os.WriteFile(file, []byte(string(text)+line+"\n"), info.Mode()))
		t.Cleanup(func() { os.WriteFile(file, text, info.Mode()) })
	}
}

// logindHas reports whether systemd-logind knows a session of the user.
func logindHas(t *testing.T, user string) bool {
	t.Helper()
	out, err := exec.Command("loginctl", "--no-legend", "list-sessions").CombinedOutput()
	if err != nil {
		t.Fatalf("loginctl: %v: %s", err, out)
	}
	return strings.Contains(string(out), " "+user+" ")
}

// pam_systemd moves a session to a scope of systemd's, and hookhost then moves it into the job.
// systemd-logind knows the session until it ends. So the user's systemd and XDG_RUNTIME_DIR stay,
// although the scope is empty. All ends with the job.
func TestSystemdLogindServesASessionOfAJob(t *testing.T) {
	n := newSystemNode(t, pamOn)
	const user, uid = "hhlogin", 4242
	guestUser(t, user, uid)
	s := newSSHDWith(n.node, "session required pam_systemd.so")
	n.startDaemon()
	s.refused(t, user, "No login: "+user+" has no job on ")
	if logindHas(t, user) {
		t.Error("a refused login is a session")
	}

	job := fmt.Sprintf(`{"job":{"id":"7.x","owner":{"user":%q,"uid":%d,"gid":%[2]d},"resource_list":{"ncpus":1}}}`, user, uid)
	if r := n.send("execjob_begin", job); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	defer n.send("execjob_end", job)
	s.session(t, user, "7.x")

	session := s.command("ssh", user+"@127.0.0.1",
		`stat -c "%n %u %a" "$XDG_RUNTIME_DIR"; cat /proc/self/cgroup; echo .; sleep 1000`)
	out, err := session.StdoutPipe()
	must.NoError(t, err, session.Start())
	text, b := "", make([]byte, 4096)
	for !strings.HasSuffix(text, ".\n") {
		length, err := out.Read(b)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		text += string(b[:length])
	}
	directory := fmt.Sprintf("/run/user/%d", uid)
	if !strings.HasPrefix(text, fmt.Sprintf("%s %d 700\n", directory, uid)) || !strings.Contains(text, "/7.x\n") ||
		strings.Contains(text, ".scope") {
		t.Errorf("the session: %s", text)
	}
	time.Sleep(stopDelay)
	if !logindHas(t, user) || !exists(directory) {
		t.Error("systemd-logind has ended the session")
	}
	must.Eventually(t, "the user's systemd runs",
		func() bool { return exists(filepath.Join(directory, "systemd/private")) })

	n.send("execjob_end", job)
	if err := session.Wait(); err == nil {
		t.Error("the session outlives its job")
	}
	must.Eventually(t, "systemd-logind ends the session", func() bool { return !logindHas(t, user) })
	must.Eventually(t, "the user's directory is removed", func() bool { return !exists(directory) })
}
