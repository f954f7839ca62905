package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// TestMain is also the program itself, by the name that this one is started by.
func TestMain(m *testing.M) {
	if self, _ := os.Readlink("/proc/self/exe"); filepath.Base(self) == "pbs-attach" {
		main()
		return
	}
	os.Exit(m.Run())
}

// place is pbs-attach with a hookhost of the test's own beside it, which says how it is called.
type place struct {
	t           *testing.T
	dir, socket string
}

func newPlace(t *testing.T) *place {
	dir, err := os.MkdirTemp("", "hhattach") // a socket's path has to be short
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{t, dir, dir + "/s"}
	self, err := os.Executable()
	must.NoError(t, err)
	b, err := os.ReadFile(self)
	must.NoError(t, err)
	for name, text := range map[string]string{"pbs-attach": string(b),
		"hookhost": "#!/bin/sh\necho hookhost: \"$@\"\n"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	must.NoError(t, os.Symlink("pbs-attach", dir+"/pbs_attach"))
	return p
}

// result is what a call left.
type result struct {
	stdout, stderr string
	status         int
}

func (p *place) run(env []string, args ...string) result {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(p.dir, args[0]), args[1:]...)
	cmd.Env = append([]string{"HOOKHOST_SOCKET=" + p.socket}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%q: %v", args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// daemon is one of the test's own. The daemon gives each caller the same answer.
type daemon struct {
	mu     sync.Mutex
	answer string
	asked  []string
}

// answering has the daemon give another answer.
func (d *daemon) answering(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = text
}

// since returns what the daemon was asked since the last call.
func (d *daemon) since() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.asked
	d.asked = nil
	return list
}

// serve answers one caller.
func (d *daemon) serve(c net.Conn) {
	defer c.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		b, _ := io.ReadAll(r.Body)
		d.asked = append(d.asked, r.Method+" "+r.URL.Path+" "+string(b))
	}
	io.WriteString(c, d.answer)
}

// answers has a daemon that answers each attach with text, head and all.
func (p *place) answers(text string) *daemon {
	p.t.Helper()
	l, err := net.Listen("unix", p.socket)
	must.NoError(p.t, err)
	d, over := &daemon{answer: text}, make(chan struct{})
	p.t.Cleanup(func() { l.Close(); <-over })
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.serve(c)
		}
	}()
	return d
}

// answering is an answer as internal/api writes it.
func answering(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\nContent-Type: application/json\r\n"+
		"Connection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
}

func refusing(kind, message string) string {
	return answering(403, fmt.Sprintf(`{"error":%q,"kind":%q}`, message, kind))
}

const attached = `{"job":"7.x","outcome":{}}`

func TestWhatIsNotPlainIsLeftToHookhost(t *testing.T) {
	p := newPlace(t)
	asked := p.answers(answering(200, attached))
	for _, args := range []string{
		"pbs-attach", "pbs-attach --", "pbs-attach -", "pbs-attach -j", "pbs-attach -j1.x true",
		"pbs-attach --job 1.x true", "pbs-attach -s true", "pbs-attach -P true", "pbs-attach -h n1 true",
		"pbs-attach -c true", "pbs-attach --help", "pbs-attach -p 1", "pbs-attach -p x", "pbs-attach -p 0x7",
		"pbs-attach -p 99999999999999999999", "pbs-attach -p 99 true", "pbs-attach -m 0 true",
		"pbs-attach -m 65536 true", "pbs-attach --socket /" + strings.Repeat("x", 107) + " true",
		"pbs_attach", "pbs_attach --version",
	} {
		words := strings.Fields(args)
		want := "hookhost: " + strings.Join(words[1:], " ")
		r := p.run(nil, words...)
		if r.status != 0 || strings.TrimSpace(r.stdout) != strings.TrimSpace(want) || r.stderr != "" {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
	for _, args := range [][]string{{"", "x"}, {"-p", "99", ""}} {
		if r := p.run(nil, append([]string{"pbs-attach"}, args...)...); !strings.HasPrefix(r.stdout, "hookhost: ") {
			t.Errorf("a command without a name is plain: %+v", r)
		}
	}
	if got := asked.since(); len(got) > 0 {
		t.Errorf("the daemon was asked: %q", got)
	}
	must.NoError(t, os.Remove(p.dir+"/hookhost"))
	want := "pbs_attach: exec " + p.dir + "/hookhost: no such file or directory\n"
	if r := p.run(nil, "pbs_attach", "-s", "true"); r.status != 127 || r.stderr != want {
		t.Errorf("without hookhost: %+v, want %q", r, want)
	}
}

func TestPlainCallAsksTheDaemon(t *testing.T) {
	p := newPlace(t)
	asked := p.answers(answering(200, attached))
	for _, tt := range []struct{ args, body string }{
		{"pbs-attach -p 4711", `{"job":"","pid":4711}`},
		{"pbs-attach -j 1[3].x -m 15003 -p 4711 --", `{"job":"1[3].x","pid":4711}`},
		{"pbs_attach -j 1.x -j 2.x -p 98 -p 99", `{"job":"2.x","pid":99}`},
		{`pbs_attach -j 1".x -p 99`, `{"job":"1\".x","pid":99}`},
	} {
		r := p.run(nil, strings.Fields(tt.args)...)
		if r.status != 0 || r.stdout+r.stderr != "" {
			t.Errorf("%s: %+v", tt.args, r)
		}
		if got, want := asked.since(), "POST /v1/attach "+tt.body; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: asked %q, want %q", tt.args, got, want)
		}
	}
	r := p.run([]string{"PATH=/bin:/usr/bin"},
		"pbs-attach", "-j", "1.x", "--", "sh", "-c", `echo $$ "$@"`, "-", "-j", "2.x")
	got := asked.since()
	want := fmt.Sprintf(`{"job":"1.x","pid":%s}`, strings.Fields(r.stdout + " ?")[0])
	if len(got) != 1 || !strings.HasSuffix(got[0], want) || !strings.HasSuffix(r.stdout, " -j 2.x\n") {
		t.Errorf("%+v, asked %q, want %q", r, got, want)
	}
}

func TestCommandHasTheEnvironmentThatHooksWant(t *testing.T) {
	p := newPlace(t)
	p.answers(answering(200, `{"job":"7.x","outcome":{
		"set_env":{"A":"a\nb","B":"","PATH":"/nowhere","":"x","C=":"x","E":"1"},"unset_env":["E","F","NONE"]}}`))
	r := p.run([]string{"PATH=/usr/bin:/bin", "AB=1", "A=0", "F=", "MPICH_PROCESS_GROUP=yes"}, "pbs-attach", "env",
		"-0")
	got := strings.Split(strings.Trim(r.stdout, "\x00"), "\x00")
	slices.Sort(got)
	want := []string{"A=a\nb", "AB=1", "B=", "HOOKHOST_SOCKET=" + p.socket, "MPICH_PROCESS_GROUP=no", "PATH=/nowhere"}
	if r.status != 0 || !slices.Equal(got, want) {
		t.Errorf("%+v, want %q", r, want)
	}
}

// A variable may be there twice, which no shell makes but a hostile launcher might.
func TestVariableThatIsThereTwiceIsSetOnce(t *testing.T) {
	p := newPlace(t)
	p.answers(answering(200, `{"job":"7.x","outcome":{"set_env":{"A":"9"},"unset_env":["B"]}}`))
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	env := []string{"HOOKHOST_SOCKET=" + p.socket, "A=0", "B=1", "C=2", "A=7", "B=2", "A=8"}
	pid, err := syscall.ForkExec(p.dir+"/pbs-attach", []string{"pbs-attach", "/usr/bin/env"},
		&syscall.ProcAttr{Env: env, Files: []uintptr{0, w.Fd(), 2}})
	w.Close()
	must.NoError(t, err)
	out, err := io.ReadAll(r)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if want := "HOOKHOST_SOCKET=" + p.socket + "\nA=9\nC=2\nMPICH_PROCESS_GROUP=no\n"; err != nil ||
		string(out) != want {
		t.Errorf("%v %q, want %q", err, out, want)
	}
}

func TestRefusalIsSaidAtOnce(t *testing.T) {
	p := newPlace(t)
	d := p.answers("")
	for answer, want := range map[string]string{
		refusing("TM_EOWNER", "attach pid 1: it is uid 0's"): "TM_EOWNER: attach pid 1: it " +
			"is uid 0's\n",
		refusing("denied", "not you"): "TM_ESYSTEM: not you\n",
		refusing("internal", "a\nb"):  "TM_ESYSTEM: a; b\n",
		answering(200, `{"job":"7.x","outcome":{"reject":true,"message":"no room"}}`): "TM_EHOOK: no room\n",
	} {
		d.answering(answer)
		for _, args := range []string{"pbs-attach true", "pbs_attach -p 99"} {
			r := p.run(nil, strings.Fields(args)...)
			if r.status != 1 || r.stderr != "pbs_attach: tm_attach: "+want || r.stdout != "" {
				t.Errorf("%s: %+v, want %q", args, r, want)
			}
		}
	}
}

// The daemon's answer may be cut off or from another world, and a command may be one that cannot be
// run.
func TestHookhostBeginsAnewWhereThereIsADoubt(t *testing.T) {
	whole := answering(200, attached)
	texts := map[string]string{
		"nothing":         "",
		"no JSON":         answering(200, "attached"),
		"other JSON":      answering(200, `{}`),
		"a list":          answering(200, `[]`),
		"another length":  strings.Replace(whole, "Content-Length: ", "Content-Length: 1", 1),
		"text behind":     whole + "x",
		"more JSON":       answering(200, attached+attached),
		"much":            "HTTP/1.1 200 OK\r\n" + strings.Repeat("x", 2<<20),
		"too busy":        refusing("busy", "too many"),
		"a bad job id":    refusing("malformed", "job id"),
		"a terminal's":    refusing("TM_EOWNER", "process 7 (\x1b[2J)"),
		"an answer of 80": answering(80, "{}"),
	}
	for i := range whole {
		texts[fmt.Sprint("the first bytes: ", i)] = whole[:i]
	}
	p := newPlace(t)
	if r := p.run(nil, "pbs-attach", "/bin/true"); r.stdout != "hookhost: /bin/true\n" {
		t.Errorf("no daemon: %+v", r)
	}
	d := p.answers("")
	for name, text := range texts {
		d.answering(text)
		r := p.run(nil, "pbs-attach", "-j", "1.x", "/bin/true")
		if r.status != 0 || r.stdout != "hookhost: -j 1.x /bin/true\n" || r.stderr != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	d.answering(whole)
	if r := p.run([]string{"PATH=/nowhere"}, "pbs-attach", "nosuch"); r.stdout != "hookhost: nosuch\n" {
		t.Errorf("no command: %+v", r)
	}
	script := p.dir + "/script"
	if err := os.WriteFile(script, []byte("exit 0\n"), 0o755); err != nil { // without an interpreter's name
		t.Fatal(err)
	}
	if r := p.run(nil, "pbs-attach", script); r.stdout != "hookhost: "+script+"\n" {
		t.Errorf("a script: %+v", r)
	}
}

// The program has its own types for what it reads: hostapi would double its time.
func TestAnswerIsReadAsTheDaemonWritesIt(t *testing.T) {
	p := newPlace(t)
	b, err := json.Marshal(api.Attached{Job: "7.x", Outcome: &hostapi.Outcome{
		Reject: true, Message: "no", SetEnv: map[string]string{"A": "1"}, UnsetEnv: []string{"B"}}})
	must.NoError(t, err)
	p.answers(answering(200, string(b)))
	c := call{socket: p.socket, pid: 99}
	a, err := c.ask()
	if err != nil || a.Job != "7.x" || !a.Outcome.Reject || a.Outcome.Message != "no" ||
		a.Outcome.SetEnv["A"] != "1" || !slices.Equal(a.Outcome.UnsetEnv, []string{"B"}) {
		t.Errorf("%s is read as %+v, %v", b, a, err)
	}
}
