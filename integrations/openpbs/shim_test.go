package openpbs_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/must"
)

// The tests TestShim... play pbs_mom and the daemon. The hook runs under python3 with a stand-in
// for PBS's module (testdata/pbs.py). The assertions are on the file that MoM reads afterwards,
// MoM's log, and how long it took.

// hookEvents are all events of pbs_mom, with what becomes of each when the daemon does not answer.
var hookEvents = []struct {
	name    string
	rejects bool
}{
	{"execjob_begin", true}, {"execjob_prologue", true}, {"execjob_launch", true}, {"execjob_attach", true},
	{"execjob_resize", true},
	{"execjob_preresume", true}, {"execjob_epilogue", false}, {"execjob_end", false}, {"execjob_abort", false},
	{"execjob_preterm", false},
	{"execjob_postsuspend", false}, {"exechost_periodic", false}, {"exechost_startup", false},
}

var rerunEvents = map[string]bool{"execjob_begin": true, "execjob_prologue": true, "execjob_launch": true}

// changes encodes verbs and their fields as the daemon does.
func changes(fields ...string) string {
	return "hookhost/1\x00" + strings.Join(fields, "\x00") + "\x00end\x00"
}

// A fakeDaemon has the daemon's socket and says what a test wants.
type fakeDaemon struct {
	socket string
	mu     sync.Mutex
	asked  []fakeRequest
}

type fakeRequest struct {
	head http.Header
	path string
	body string
	over <-chan struct{} // closed when the test is
}

// startDaemon listens. answer has the connection to itself, behind the sign of life; false for a
// request leaves it unread and gives no sign.
func startDaemon(t testing.TB, socket string, readRequest bool, answer func(c net.Conn, r fakeRequest)) *fakeDaemon {
	t.Helper()
	l, err := net.Listen("unix", socket)
	must.NoError(t, err)
	d := &fakeDaemon{socket: socket}
	over := make(chan struct{})
	var open sync.WaitGroup
	t.Cleanup(func() {
		close(over)
		l.Close()
		open.Wait()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func() {
				defer open.Done()
				defer c.Close()
				go func() { <-over; c.Close() }()
				r := fakeRequest{over: over}
				if readRequest {
					req, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return
					}
					if req.Header.Get("Expect") == "100-continue" {
						io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
					}
					body, _ := io.ReadAll(req.Body)
					r = fakeRequest{req.Header, req.Method + " " + req.URL.Path, string(body), over}
					d.mu.Lock()
					d.asked = append(d.asked, r)
					d.mu.Unlock()
				}
				answer(c, r)
			}()
		}
	}()
	return d
}

func (d *fakeDaemon) requests() []fakeRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// respond answers with a status and a body, as the daemon does.
func respond(c net.Conn, status int, kind, body string) {
	fmt.Fprintf(c, "HTTP/1.0 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status,
		http.StatusText(status), kind, len(body), body)
}

const changesType = "application/x-hookhost-changes"

// answering is a daemon that answers every event so.
func answering(t testing.TB, m *hookMoM, fields ...string) *fakeDaemon {
	return startDaemon(t, m.socket, true,
		func(c net.Conn, r fakeRequest) { respond(c, 200, changesType, changes(fields...)) })
}

// A hookMoM does what pbs_mom does with a hook: its directories, the input file, the alarm.
type hookMoM struct {
	t       testing.TB
	python  string
	home    string
	socket  string
	env     []string
	clients int
}

func newHookMoM(t testing.TB, settings ...string) *hookMoM {
	t.Helper()
	// Not t.TempDir(): with the names of tests in it a path is longer than a socket's may be.
	home, err := os.MkdirTemp("", "hookhost-shim-")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	m := &hookMoM{t: t, python: python(t), home: home, socket: filepath.Join(home, "s")}
	for _, dir := range []string{"hooks/tmp", "logs"} {
		must.NoError(t, os.MkdirAll(m.at(dir), 0o755))
	}
	must.NoError(t, os.Chmod(home, 0o755))
	m.configure(settings...)
	return m
}

func (m *hookMoM) at(name string) string { return filepath.Join(m.home, name) }

// configure writes the hook's configuration. A daemon that is not there is not waited for, unless a
// test wants that.
func (m *hookMoM) configure(settings ...string) {
	m.t.Helper()
	text := "# a site's\n[memory]\nenabled = true\n[shim]\nsocket = \"" + m.socket + "\"\nwait = \"0s\"\n" +
		strings.Join(settings, "\n") + "\n[pids]\nmax = 10\n"
	must.NoError(m.t, os.WriteFile(m.at("hooks/shim.CF"), []byte(text), 0o644))
}

// hookResult is what a hook has left.
type hookResult struct {
	out    string // MoM's file
	log    []string
	said   string // on standard error: the log with its levels
	status int
	took   time.Duration
}

func (r hookResult) accepted() bool {
	return strings.Contains("\n"+r.out, "\npbs.event().accept=True\n")
}

// wantAccepted expects that an event was accepted and that nothing was said of it.
func (r hookResult) wantAccepted(t testing.TB, what string) {
	t.Helper()
	if !r.accepted() || r.said != "" {
		t.Errorf("%s: %s%s", what, r.out, r.said)
	}
}

func (r hookResult) rejected() bool {
	return strings.Contains("\n"+r.out, "\npbs.event().reject=True\n")
}

func (r hookResult) message() string {
	_, after, _ := strings.Cut(r.out, "pbs.event().reject_msg=")
	line, _, _ := strings.Cut(after, "\n")
	return line
}

var alarmLine = regexp.MustCompile(`(?m)^pbs\.event\(\)\.alarm=(\d+)$`)

func alarmOf(input string) time.Duration {
	all := alarmLine.FindAllStringSubmatch(input, -1)
	if len(all) == 0 {
		return 30 * time.Second
	}
	n, _ := strconv.Atoi(all[len(all)-1][1])
	return time.Duration(n) * time.Second
}

func withAlarm(input string, seconds int) string {
	return alarmLine.ReplaceAllString(input, fmt.Sprintf("pbs.event().alarm=%d", seconds))
}

// withVnode adds a vnode to those of the job, as MoM lists those of other hosts.
func withVnode(input, name, host string) string {
	return strings.Replace(input, "\npbs.event().vnode_list",
		"\npbs.event().vnode_list[\""+name+"\"].resources_assigned[host]="+host+"\npbs.event().vnode_list", 1)
}

// added returns what the shim has sent behind MoM's file, but for the alarm: a machine that is slow
// has lost some of it.
func added(body, input string) string {
	more, whole := strings.CutPrefix(body, input)
	if !whole {
		return "not what MoM wrote: " + body
	}
	return strings.TrimPrefix(alarmLine.ReplaceAllString(more, ""), "\n")
}

// run runs the shim for an event.
func (m *hookMoM) run(input string) hookResult {
	m.t.Helper()
	return m.script(shimPath(m.t), input)
}

// script runs a hook as MoM does: in a session of its own, killed when its alarm is over.
func (m *hookMoM) script(script, input string) hookResult {
	m.t.Helper()
	m.clients++
	stem := m.at(fmt.Sprintf("hooks/tmp/hook_%d", m.clients))
	must.NoError(m.t, os.WriteFile(stem+".in", []byte(input), 0o644))
	var said bytes.Buffer
	cmd := exec.Command(m.python, filepath.Join(modules(m.t), "pbs_python.py"), "--hook", "-i", stem+".in", "-o",
		stem+".out", "-L", m.at("logs"), "-e", "0x1ff", script)
	cmd.Dir, cmd.Stderr = m.at("hooks/tmp"), &said
	cmd.Env = append([]string{"PATH=/bin:/usr/bin", "PBS_HOOK_CONFIG_FILE=" + m.at("hooks/shim.CF")}, m.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	os.Remove(m.log())
	began := time.Now()
	must.NoError(m.t, cmd.Start())
	late := time.AfterFunc(alarmOf(input), func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	r := hookResult{took: time.Since(began), said: said.String()}
	if !late.Stop() {
		m.t.Errorf("MoM's alarm of %v is over: %v\n%s", alarmOf(input), err, r.said)
		return r
	}
	r.status = cmd.ProcessState.ExitCode()
	if err != nil {
		m.t.Errorf("the hook: %v\n%s\ninput:\n%s", err, r.said, input)
	}
	out, _ := os.ReadFile(stem + ".out")
	r.out = string(out)
	logged, _ := os.ReadFile(m.log())
	for line := range strings.Lines(string(logged)) {
		r.log = append(r.log, strings.TrimSpace(strings.SplitN(line, ";", 6)[5]))
	}
	return r
}

// log is MoM's of today. A test that runs at midnight finds its lines in the other one.
func (m *hookMoM) log() string {
	if all, _ := filepath.Glob(m.at("logs/2*")); len(all) > 0 {
		return all[len(all)-1]
	}
	return m.at("logs/none")
}

// captured returns the input file of an event that was captured from a running pbs_mom.
func captured(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/pbs-events", name+".in"))
	must.NoError(t, err)
	// a file for debugging, which nobody wants
	return strings.ReplaceAll(string(b), "/var/spool/pbs/mom_priv/hooks/tmp/", "/dev/null/")
}

// anEvent is one of each kind. There is none of execjob_resize, which begin is like.
func anEvent(t testing.TB, event string) string {
	t.Helper()
	switch event {
	case "execjob_resize":
		return strings.ReplaceAll(captured(t, "job82/execjob_begin"), "execjob_begin", event)
	case "execjob_abort":
		return captured(t, "abort86/"+event)
	case "execjob_preterm":
		return captured(t, "qdel83/"+event)
	case "exechost_periodic":
		return captured(t, "host/exechost_periodic_with_jobs")
	case "exechost_startup":
		return captured(t, "host/"+event)
	}
	return captured(t, "job82/"+event)
}

var interpreterName = regexp.MustCompile(`^python3\.([6-9]|1[0-9])$`)

// pythons finds an interpreter of each version of Python 3 that this machine has; the first is
// python3 itself.
var pythons = sync.OnceValue(func() []string {
	var found []string
	seen := map[string]bool{}
	look := func(program string) {
		out, err := exec.Command(program, "-c",
			"import sys; print('%d.%d %s' % (sys.version_info[0], sys.version_info[1], sys.executable))").Output()
		version, path, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		if err == nil && !seen[version] && path != "" {
			seen[version] = true
			found = append(found, path)
		}
	}
	for _, program := range []string{"/usr/bin/python3", "python3"} {
		look(program)
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if home, err := os.UserHomeDir(); err == nil {
		versions, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/3*/bin"))
		dirs = append(versions, dirs...)
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if interpreterName.MatchString(e.Name()) && !strings.Contains(dir, "shims") {
				look(filepath.Join(dir, e.Name()))
			}
		}
	}
	return found
})

func python(t testing.TB) string {
	t.Helper()
	if len(pythons()) == 0 {
		t.Fatal("python3 is needed: scripts/need python3")
	}
	return pythons()[0]
}

// shimPath is the hook's script as PBS has it.
func shimPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "hookhost.PY")
}

var modulesDir struct {
	sync.Mutex
	path string
}

// modules is a folder with the hook's script, and with the stand-in for PBS's modules that
// interpreters may leave their compiled files in.
func modules(t testing.TB) string {
	t.Helper()
	modulesDir.Lock()
	defer modulesDir.Unlock()
	if modulesDir.path != "" {
		return modulesDir.path
	}
	dir, err := os.MkdirTemp("", "hookhost-pbs-")
	must.NoError(t, err)
	for _, name := range []string{"pbs.py", "pbs_python.py", "many.py"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		must.NoError(t, err)
	}
	must.NoError(t, os.WriteFile(filepath.Join(dir, "hookhost.PY"), openpbs.Script(""), 0o644))
	os.Chmod(dir, 0o755)
	modulesDir.path = dir
	return dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(modulesDir.path)
	os.Exit(code)
}

// slowness is how many seconds this machine needs for a hook that does nothing, times ten: what
// tests of time allow beyond.
var slowness = sync.OnceValue(func() int { return int(math.Ceil(10 * doNothing.Seconds())) })

var doNothing time.Duration

// patience returns an alarm in seconds that a test of time can go by on this machine, however slow
// that is.
func patience(t testing.TB) int {
	t.Helper()
	once.Do(func() {
		m := newHookMoM(t)
		nothing := filepath.Join(m.home, "nothing.py")
		must.NoError(t, os.WriteFile(nothing, []byte("import pbs\npbs.event().accept()\n"), 0o644))
		m.script(nothing, withAlarm(anEvent(t, "execjob_end"), 120)) // compiles the stand-in
		doNothing = m.script(nothing, withAlarm(anEvent(t, "execjob_end"), 120)).took
	})
	return 3 + slowness()
}

var once sync.Once
