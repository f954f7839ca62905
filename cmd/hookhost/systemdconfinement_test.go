package main_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Exposure by `systemd-analyze security`, in tenths: no unit of ours gets above it. Versions of
// systemd differ in what they count.
const (
	daemonExposure = "68"
	webExposure    = "20"
)

// privileges are what the kernel has of a process's privileges.
type privileges struct {
	bounding             uint64
	noNewPrivs, filtered bool
}

func privilegesIn(t *testing.T, status string) privileges {
	t.Helper()
	var p privileges
	var err error
	for line := range strings.Lines(status) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); name {
		case "CapBnd":
			p.bounding, err = strconv.ParseUint(value, 16, 64)
			must.NoError(t, err)
		case "NoNewPrivs":
			p.noNewPrivs = value == "1"
		case "Seccomp":
			p.filtered = value == "2"
		}
	}
	if p.bounding == 0 {
		t.Fatalf("no privileges in %q", status)
	}
	return p
}

// The unit takes from the daemon and its hooks what they do not need, and nothing from jobs. Each
// kind of hook does its work: memory with the kernel's words, devices, time, a site's own.
func TestSystemdConfinesTheDaemonAndNoJob(t *testing.T) {
	n := newSystemNode(t)
	must.NoError(t, os.Chmod(n.dir, 0o711))
	n.commands("hook create deny", "hook import deny application/x-executable default "+
		filepath.Join(built, "samples/deny"), "hook set deny event=execjob_prologue")
	n.startDaemon()
	must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
	own, err := os.ReadFile("/proc/self/status")
	must.NoError(t, err)
	r := n.hookhost("run", "--report=none", "--", "cat", "/proc/self/status")
	if got, want := privilegesIn(t, r.stdout), privilegesIn(t, string(own)); got != want {
		t.Errorf("a job has %+v, its starter %+v", got, want)
	}

	main, err := strconv.Atoi(n.property(n.daemon, "MainPID"))
	must.NoError(t, err)
	pids := append(childrenOf(main), main)
	if len(pids) < 4 {
		t.Errorf("the daemon and its hooks: %v", pids)
	}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		must.NoError(t, err)
		p := privilegesIn(t, string(status))
		if !p.noNewPrivs || !p.filtered || p.bounding&(1<<unix.CAP_SYS_TIME|1<<unix.CAP_SYS_BOOT) != 0 ||
			p.bounding&(1<<unix.CAP_SYS_ADMIN) == 0 {
			t.Errorf("process %d: %+v of\n%s", pid, p, status)
		}
	}
	r = loggedKill(func() result {
		return n.hookhost("run", "--report=none", "-l", "select=1:ncpus=1:mem=32mb", "--", "python3", "-c",
			"x=bytearray(200<<20)")
	})
	if r.status != 137 || !strings.Contains(r.stderr, "Killed process") {
		t.Errorf("a job beyond its memory: status %d, %q, want the kernel's words", r.status, r.stderr)
	}
	if got, want := n.startOpener("5.srv", "/dev/null", "/dev/kmsg")(),
		"/dev/null granted\n/dev/kmsg denied\n"; got != want {
		t.Errorf("the job opens %q, want %q", got, want)
	}
	if r := n.hookhost("run", "--report=none", "-u", "nobody", "--", "id", "-u"); r.status != 0 ||
		strings.Contains(r.stderr, "start hook") {
		t.Errorf("a job of another user: status %d, %q", r.status, r.stderr)
	}
	r = n.hookhost("run", "--report=none", "-l", "walltime=1", "-l", "kill_delay=1", "--", "sh", "-c",
		"trap '' TERM; sleep 600")
	if r.status != 137 {
		t.Errorf("a job beyond its time: status %d", r.status)
	}
	n.exposure(n.daemon, daemonExposure)
}

// exposure fails the test where systemd finds a unit more exposed than a bound.
func (n *systemNode) exposure(unit, bound string) {
	n.t.Helper()
	out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--threshold="+bound, unit).CombinedOutput()
	n.t.Logf("%s", out)
	if err != nil && !strings.Contains(string(out), "unrecognized option") { // systemd before 250
		n.t.Errorf("systemd-analyze security %s: above %s: %v", unit, bound, err)
	}
}

// The packaged server of pages works with what its unit leaves to it.
func TestSystemdConfinesTheServerOfPages(t *testing.T) {
	n := newSystemNode(t)
	n.startDaemon()
	must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
	n.start("6.srv", "sleep", "600")
	web := n.prefix + "-web.service"
	n.install("hookhost-web.service", web, "PROXY_USER=www-data", "PROXY_USER=nobody",
		"/usr/bin/hookhost", filepath.Join(built, "hookhost"), "hookhost-web/socket", web+"/socket",
		"RuntimeDirectory=hookhost-web", "RuntimeDirectory="+web+"\nBindPaths="+n.dir+
			"\nEnvironment=HOOKHOST_CONFIG="+n.path("hookhost.toml")+" HOOKHOST_SOCKET="+n.path("run/s"))
	t.Cleanup(func() { n.systemctl("stop", web); os.Remove(n.unitFile(web)) })
	n.do("daemon-reload")
	n.do("start", web)
	dial := func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", "/run/"+web+"/socket")
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	page := func(user string) int {
		req, err := http.NewRequest("GET", "http://localhost/jobs/6.srv", nil)
		must.NoError(t, err)
		req.Header.Set("X-Remote-User", user)
		answer, err := client.Do(req)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	must.Eventually(t, "root sees the job", func() bool { return page("root") == http.StatusOK })
	if got := page("nobody"); got != http.StatusNotFound {
		t.Errorf("another user is answered %d", got)
	}
	n.exposure(web, webExposure)
}

// A job's owner has systemd start nothing outside of the job. Root may, so that it is the owner who
// is refused. A user whom the site lets linger has a manager that is outside of every job
// (docs/mpi.md, "Processes that escape from a job").
func TestSystemdStartsNothingForAJobsOwner(t *testing.T) {
	n := newSystemNode(t)
	must.NoError(t, os.Chmod(n.dir, 0o711))
	n.startDaemon()
	must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
	must.NoError(t, exec.Command("systemd-run", "--quiet", "--collect", "--wait", "true").Run())
	for _, options := range []string{"", "--scope", "--user", "--user --scope"} {
		r := n.hookhost("run", "-u", "nobody", "--report=none", "--", "sh", "-c",
			"systemd-run --quiet --collect "+options+" sh -c 'echo it runs in; cat /proc/self/cgroup'")
		if r.status == 0 || strings.Contains(r.stdout, "it runs") {
			t.Errorf("systemd-run %s: status %d, %s", options, r.status, r.stdout)
		}
	}
}

// With polkit, a job's owner may linger, and then has systemd start programs outside of all jobs.
// The packaged rule forbids that. Doctor reports whether it is in force.
func TestSystemdLetsNoJobsOwnerLingerWithTheRule(t *testing.T) {
	n := newSystemNode(t)
	if _, err := exec.LookPath("pkcheck"); err != nil {
		kernfstest.Elsewhere(t, "no polkit that reads rules.d")
	}
	must.NoError(t, os.Chmod(n.dir, 0o711))
	const user, uid = "hhlinger", 4243
	guestUser(t, user, uid)
	n.do("start", "polkit") // D-Bus starts it too, but waits for 25 seconds only
	n.startDaemon()
	must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
	reported := func() bool { return strings.Contains(n.hookhost("doctor").stdout, "systemd of users") }
	linger := func() (int, bool) {
		r := n.hookhost("run", "-u", user, "--report=none", "--", "loginctl", "enable-linger", user)
		return r.status, exists("/var/lib/systemd/linger/" + user)
	}
	t.Cleanup(func() { exec.Command("loginctl", "disable-linger", user).Run() })

	if status, lingers := linger(); status != 0 || !lingers {
		t.Fatalf("without the rule: status %d, lingers: %v", status, lingers)
	}
	must.Eventually(t, "doctor reports it", reported)
	runtime := fmt.Sprintf("/run/user/%d", uid)
	must.Eventually(t, "the user's systemd runs", func() bool { return exists(runtime + "/systemd/private") })
	n.hookhost("run", "-u", user, "--report=none", "--", "sh", "-c", "XDG_RUNTIME_DIR="+runtime+
		" systemd-run --quiet --user sh -c 'cat /proc/self/cgroup >"+runtime+"/cgroup'")
	must.Eventually(t, "it has started a program outside of the job", func() bool {
		cgroups, _ := os.ReadFile(runtime + "/cgroup")
		return strings.Contains(string(cgroups), "/user.slice/")
	})
	must.NoError(t, exec.Command("loginctl", "disable-linger", user).Run())

	rule, err := os.ReadFile("../../packaging/polkit/linger.rules")
	const file = "/etc/polkit-1/rules.d/10-hookhost.rules"
	must.NoError(t, err, os.WriteFile(file, rule, 0o644))
	t.Cleanup(func() { os.Remove(file) })
	must.Eventually(t, "doctor knows the rule", func() bool { return !reported() })
	if status, lingers := linger(); status != 1 || lingers { // loginctl's, not that of a job that did not start
		t.Errorf("with the rule: status %d, lingers: %v", status, lingers)
	}
}
