package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/must"
)

// TestMain is also the stand-in and the real pbs_python, by the names that this program is started
// by.
func TestMain(m *testing.M) {
	self, _ := os.Readlink("/proc/self/exe")
	switch filepath.Base(self) {
	case "pbs_python":
		main()
	case "pbs_python.openpbs":
		os.Exit(beReal(filepath.Dir(self)))
	default:
		os.Exit(m.Run())
	}
}

// started is what the real pbs_python was given.
type started struct {
	Args, Env []string
	Reply     []byte // what was to be read from HOOKHOST_REPLY_FD
}

const realStatus = 7

func beReal(dir string) int {
	s := started{Args: os.Args, Env: os.Environ()}
	if n, err := strconv.Atoi(os.Getenv("HOOKHOST_REPLY_FD")); err == nil {
		if s.Reply, err = io.ReadAll(os.NewFile(uintptr(n), "reply")); err != nil {
			return 1
		}
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "started"), b, 0o600)
	}
	if err != nil {
		return 1
	}
	return realStatus
}

// place is PBS_EXEC/bin with the stand-in in it, and a daemon's socket.
type place struct {
	t   testing.TB
	dir string
}

func newPlace(t testing.TB) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "hhpy") // a socket's path has to be short
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{t, dir}
	self, err := os.Executable()
	must.NoError(t, err)
	b, err := os.ReadFile(self)
	must.NoError(t, err)
	p.write("pbs_python", string(b), 0o755)
	must.NoError(t, os.Link(p.path("pbs_python"), p.path("pbs_python.openpbs")))
	p.write("hookhost.PY", string(openpbs.Script("")), 0o700)
	p.write("another.PY", "import pbs\n", 0o700)
	p.write("hookhost.CF", "[memory]\nenabled = true\n[shim]\nsocket = \""+p.path("sock")+"\" # here\n", 0o700)
	p.write("in", input(90), 0o600)
	return p
}

func input(alarm int) string {
	return "pbs.event().job.id=1.srv\npbs.event().job.Variable_List=\"\"\"A=1\nB=2\"\"\"\n" +
		"pbs.event().type=execjob_begin\npbs.event().hook_name=hookhost\npbs.event().alarm=" +
		strconv.Itoa(alarm) + "\n"
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(name, text string, mode os.FileMode) {
	p.t.Helper()
	must.NoError(p.t, os.WriteFile(p.path(name), []byte(text), mode))
}

// momArgs are what MoM gives.
func (p *place) momArgs(script string) []string {
	return []string{"--hook", "-i", p.path("in"), "-o", p.path("out"), "-L", p.dir, "-e", "511", "-r",
		"/none/resourcedef", script}
}

// run starts the stand-in; the returned value is nil when it did not become the real one.
func (p *place) run(args ...string) *started {
	p.t.Helper()
	cmd := &exec.Cmd{Path: p.path("pbs_python"), Args: append([]string{"/opt/pbs/bin/pbs_python"}, args...),
		Env: []string{"PATH=/bin", "PBS_HOOK_CONFIG_FILE=" + p.path("hookhost.CF")}}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != realStatus {
		p.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	b, err := os.ReadFile(p.path("started"))
	must.NoError(p.t, err)
	s := &started{}
	must.NoError(p.t, json.Unmarshal(b, s))
	if want := cmd.Args; !slices.Equal(s.Args, want) {
		p.t.Errorf("the real one was started with %q, want %q", s.Args, want)
	}
	return s
}

// untouched fails unless the real one was started with the environment as it came.
func (s *started) untouched(t *testing.T) {
	t.Helper()
	if s == nil {
		t.Fatal("the stand-in answered itself")
	}
	if len(s.Env) != 2 || s.Env[0] != "PATH=/bin" || !strings.HasPrefix(s.Env[1], "PBS_HOOK_CONFIG_FILE=") {
		t.Errorf("environment %q, want the one it came with", s.Env)
	}
}

// daemon answers at the place's socket; it returns the requests' bodies.
func (p *place) daemon(answer http.HandlerFunc) func() []string {
	p.t.Helper()
	l, err := net.Listen("unix", p.path("sock"))
	must.NoError(p.t, err)
	var mu sync.Mutex
	var got []string
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			p.t.Error(err)
		}
		mu.Lock()
		got = append(got, string(b))
		mu.Unlock()
		answer(w, r)
	})}
	go s.Serve(l)
	p.t.Cleanup(func() { s.Close() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

const accepted = "pbs.event().accept=True\npbs.event().reject=False\n"

func answers(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		io.WriteString(w, body)
	}
}

// An event that the daemon answers with the output file's text never starts Python.
func TestAnswersForOurs(t *testing.T) {
	p := newPlace(t)
	var head http.Header
	got := p.daemon(func(w http.ResponseWriter, r *http.Request) {
		head = r.Header
		if r.Method != http.MethodPost || r.URL.Path != "/v1/pbs/event" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		answers(typeOutput, accepted)(w, r)
	})
	if s := p.run(p.momArgs(p.path("hookhost.PY"))...); s != nil {
		t.Fatalf("became the real one: %q", s.Env)
	}
	if b, err := os.ReadFile(p.path("out")); err != nil || string(b) != accepted {
		t.Errorf("output file %q, %v", b, err)
	}
	if bodies := got(); len(bodies) != 1 || bodies[0] != input(90) {
		t.Errorf("the daemon got %q", bodies)
	}
	if head.Get("Hookhost-Parent") != strconv.Itoa(os.Getpid()) || head.Get("Accept") != typeOutput {
		t.Errorf("headers %v", head)
	}
}

// Changes that the output file cannot carry are the shim's to make. The shim gets the answer, and
// does not ask again.
func TestChangesAreTheShims(t *testing.T) {
	p := newPlace(t)
	changes := "hookhost/1\x00accept\x00" + strings.Repeat("log\x00debug\x00x\x00", 20_000) + "end\x00"
	got := p.daemon(answers(typeChanges, changes))
	s := p.run(p.momArgs(p.path("hookhost.PY"))...)
	if s == nil || string(s.Reply) != changes {
		t.Fatal("the shim did not get the answer")
	}
	if n := len(s.Env); n != 3 || !strings.HasPrefix(s.Env[2], replyVariable) {
		t.Errorf("environment %q", s.Env)
	}
	if len(got()) != 1 {
		t.Errorf("asked %d times", len(got()))
	}
	if _, err := os.Stat(p.path("out")); err == nil {
		t.Error("it wrote the output file as well")
	}
}

// Everything that is not an event of ours is the real one's, and the daemon does not hear of it.
func TestOthersAreTheRealOnes(t *testing.T) {
	p := newPlace(t)
	got := p.daemon(answers(typeOutput, accepted))
	ours := p.momArgs(p.path("hookhost.PY"))
	for name, args := range map[string][]string{
		"no arguments":    nil,
		"a script":        {"script.py", "--hook"},
		"a person's":      {"-c", "print(1)"},
		"version":         {"--version"},
		"another hook":    p.momArgs(p.path("another.PY")),
		"a hook gone":     p.momArgs("/hooks/hookhost.PY"),
		"a job user's":    p.momArgs("/var/spool/pbs/spool/hook_script4711"),
		"server data":     append([]string{"--hook", "-s", "/data"}, ours[1:]...),
		"unknown option":  append([]string{"--hook", "-x", "1"}, ours[1:]...),
		"no output":       {"--hook", "-i", p.path("in"), "hookhost.PY"},
		"no script":       ours[:len(ours)-1],
		"two scripts":     append(slices.Clone(ours), "more"),
		"no input file":   {"--hook", "-i", p.path("none"), "-o", p.path("out"), "hookhost.PY"},
		"empty arguments": {"--hook", "", ""},
	} {
		t.Run(name, func(t *testing.T) { p.run(args...).untouched(t) })
	}
	for name, in := range map[string]string{
		"no alarm": "pbs.event().type=execjob_begin\n", "odd alarm": "pbs.event().alarm=soon\n",
		"empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			p.write("in", in, 0o600)
			p.run(ours...).untouched(t)
		})
	}
	p.write("in", input(90), 0o600)
	p.write("hookhost.offline", "", 0o600)
	t.Run("vnodes offline", func(t *testing.T) { p.run(p.momArgs(p.path("hookhost.PY"))...).untouched(t) })
	os.Remove(p.path("hookhost.offline"))
	if n := len(got()); n != 0 {
		t.Errorf("the daemon was asked %d times", n)
	}
}

// A daemon that fails at once is left to the shim, which knows what is to become of the event.
func TestFailuresAreTheShims(t *testing.T) {
	for name, daemon := range map[string]http.HandlerFunc{
		"no socket": nil,
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		},
		"another kind":       answers("application/json", `{"accept":true}`),
		"no verdict":         answers(typeOutput, "pbs.event().reject_msg=x\n"),
		"cut off output":     answers(typeOutput, "pbs.event().accept=True"),
		"empty":              answers(typeOutput, ""),
		"cut off changes":    answers(typeChanges, "hookhost/1\x00accept\x00"),
		"another version":    answers(typeChanges, "hookhost/2\x00accept\x00end\x00"),
		"killed in mid-call": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a short body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "500")
			io.WriteString(w, accepted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if daemon != nil {
				p.daemon(daemon)
			}
			s := p.run(p.momArgs(p.path("hookhost.PY"))...)
			s.untouched(t)
			if _, err := os.Stat(p.path("out")); err == nil {
				t.Error("it left an output file")
			}
		})
	}
}

// A hung daemon costs the time that there is. The shim counts from the start of the process, and
// gives up at once.
func TestHungDaemon(t *testing.T) {
	p := newPlace(t)
	p.write("in", input(2), 0o600)
	p.daemon(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	start := time.Now()
	s := p.run(p.momArgs(p.path("hookhost.PY"))...)
	if took := time.Since(start); took < 1400*time.Millisecond {
		t.Errorf("gave up after %v of 2 s", took)
	}
	s.untouched(t)
}

// A daemon that gives no sign of life holds MoM for a second of the 90 that the event has. Then the
// shim asks.
func TestStoppedDaemonIsLeftToTheShimAtOnce(t *testing.T) {
	p := newPlace(t)
	l, err := net.Listen("unix", p.path("sock")) // nobody accepts
	must.NoError(t, err)
	defer l.Close()
	start := time.Now()
	s := p.run(p.momArgs(p.path("hookhost.PY"))...)
	if took := time.Since(start); took < silence || took > 30*time.Second {
		t.Errorf("gave up after %v", took)
	}
	s.untouched(t)
}

// An output file that cannot be written is not half there, and the event goes the long way.
func TestOutputFileCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	p.daemon(answers(typeOutput, accepted))
	must.NoError(t, os.Mkdir(p.path("out"), 0o700))
	p.run(p.momArgs(p.path("hookhost.PY"))...).untouched(t)
}
