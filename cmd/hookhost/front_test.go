package main_test

import (
	"bufio"
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
)

// front is cmd/front with a program of the test's own below it, which says what it is called with.
type front struct {
	t      *testing.T
	dir    string
	socket string
}

func newFront(t *testing.T) *front {
	f := &front{t: t, dir: t.TempDir()}
	f.socket = f.dir + "/s"
	if err := duplicate(filepath.Join(built, "hookhost"), f.dir+"/hookhost"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hookhost", f.dir+"/pbs_attach"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.dir+"/full", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.dir+"/full/hookhost", []byte("#!/bin/sh\necho full: \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *front) run(env []string, args ...string) result {
	f.t.Helper()
	cmd := exec.Command(filepath.Join(f.dir, args[0]), args[1:]...)
	cmd.Env = append([]string{"HOOKHOST_SOCKET=" + f.socket}, env...)
	n := &node{t: f.t}
	return n.finish(cmd)
}

// asked is what a daemon of the test's own was asked.
type asked struct {
	mu   sync.Mutex
	list []string
}

func (a *asked) add(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, what)
}

// since returns what it was asked since the last call.
func (a *asked) since() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

// answers has a daemon that answers each attach with text, head and all.
func (f *front) answers(text string) *asked {
	f.t.Helper()
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		f.t.Fatal(err)
	}
	asked, over := &asked{}, make(chan struct{})
	f.t.Cleanup(func() { l.Close(); <-over })
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				b, _ := io.ReadAll(r.Body)
				asked.add(r.Method + " " + r.URL.Path + " " + r.Header.Get("Accept") + " " + string(b))
			}
			io.WriteString(c, text)
			c.Close()
		}
	}()
	return asked
}

const attachedType = "application/x-hookhost-attached"

// inWords is an answer as internal/api/words.go writes it.
func inWords(status int, words ...string) string {
	body := strings.Join(append(words, ""), "\x00")
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\nContent-Type: %s\r\nHookhost-Api: 1\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), attachedType, body)
}

// What is not plain is the full program's, with the same arguments.
func TestFrontLeavesToTheFullProgram(t *testing.T) {
	f := newFront(t)
	asked := f.answers(inWords(200, "hookhost/1", "end"))
	for _, args := range []string{
		"hookhost", "hookhost run -- true", "hookhost attach", "hookhost attach --", "hookhost attach -", "hookhost attach -j", "hookhost attach -j 1.x",
		"hookhost attach -j1.x true", "hookhost attach --job 1.x true", `hookhost attach -j 1"x true`, "hookhost attach -j " + strings.Repeat("1", 221) + " true",
		"hookhost attach -j x true", "hookhost attach -j 1x true", "hookhost attach -j 1. true", "hookhost attach -j 1.-x true", "hookhost attach -j 1[2 true",
		"hookhost attach -j 1[x].y true", "hookhost attach -j 1[2]y true", "hookhost attach -j .. true", "hookhost attach -j 1.x/y true",
		"hookhost attach -s true", "hookhost attach -P true", "hookhost attach -h n1 true", "hookhost attach -c true", "hookhost attach --help",
		"hookhost attach -p 1", "hookhost attach -p 07", "hookhost attach -p +7", "hookhost attach -p 99999999999999999999", "hookhost attach -p 99 true",
		"hookhost attach -m 0 true", "hookhost attach -m 65536 true", "hookhost attach --socket run/s true", "hookhost attach --socket /" + strings.Repeat("x", 107) + " true",
		"hookhost --socket /x attach true", "hookhost event attach", "pbs_attach", "pbs_attach --version",
	} {
		words := strings.Fields(args)
		r := f.run(nil, words...)
		if want := "full: " + strings.Join(words[1:], " "); r.status != 0 || strings.TrimSpace(r.stdout) != strings.TrimSpace(want) || r.stderr != "" {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
	if r := f.run(nil, "hookhost", "attach", "", "x"); !strings.HasPrefix(r.stdout, "full: ") {
		t.Errorf("a command without a name is plain: %+v", r)
	}
	if got := asked.since(); len(got) > 0 {
		t.Errorf("the daemon was asked: %q", got)
	}
	if err := os.Remove(f.dir + "/full/hookhost"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../hookhost", f.dir+"/full/hookhost"); err != nil {
		t.Fatal(err)
	}
	if r := f.run(nil, "hookhost", "run"); r.status != 127 || !strings.Contains(r.stderr, "Too many levels") {
		t.Errorf("with itself as full program: %+v", r)
	}
	if err := os.Remove(f.dir + "/full/hookhost"); err != nil {
		t.Fatal(err)
	}
	if r := f.run(nil, "hookhost", "run"); r.status != 127 || !strings.Contains(r.stderr, "can be run: No such file or directory") {
		t.Errorf("without a full program: %+v", r)
	}
}

func TestFrontAsks(t *testing.T) {
	f := newFront(t)
	asked := f.answers(inWords(200, "hookhost/1", "end"))
	for _, tt := range []struct{ args, body string }{
		{"hookhost attach -p 4711", `{"job":"","pid":4711}`},
		{"hookhost attach -j 1[3].x -m 15003 -p 4711 --", `{"job":"1[3].x","pid":4711}`},
		{"pbs_attach -j 1.x -j 2.x -p 98 -p 99", `{"job":"2.x","pid":99}`},
		{"pbs_attach -j 1[].a-b_c.d -p 99", `{"job":"1[].a-b_c.d","pid":99}`},
		{"pbs_attach -j 12[] -p 99", `{"job":"12[]","pid":99}`},
		{"pbs_attach -j 12 -p 99", `{"job":"12","pid":99}`},
	} {
		r := f.run(nil, strings.Fields(tt.args)...)
		if r.status != 0 || r.stdout+r.stderr != "" {
			t.Errorf("%s: %+v", tt.args, r)
		}
		got := asked.since()
		if want := "POST /v1/attach " + attachedType + " " + tt.body; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: asked %q, want %q", tt.args, got, want)
		}
	}
	r := f.run([]string{"PATH=/bin:/usr/bin"}, "hookhost", "attach", "-j", "1.x", "--", "sh", "-c", `echo $$ "$@"`, "-", "-j", "2.x")
	got := asked.since()
	if want := fmt.Sprintf(`{"job":"1.x","pid":%s}`, strings.Fields(r.stdout + " ?")[0]); len(got) != 1 || !strings.HasSuffix(got[0], want) ||
		!strings.HasSuffix(r.stdout, " -j 2.x\n") {
		t.Errorf("%+v, asked %q, want %q", r, got, want)
	}
}

func TestFrontEnvironment(t *testing.T) {
	f := newFront(t)
	f.answers(inWords(200, "hookhost/1", "set", "A", "1", "set", "B", "", "set", "PATH", "/nowhere", "set", "", "x", "set", "C=", "x", "set", "E", "1",
		"unset", "E", "unset", "F", "unset", "NONE", "set", "A", "a\nb", "end"))
	r := f.run([]string{"PATH=/usr/bin:/bin", "AB=1", "A=0", "F=", "MPICH_PROCESS_GROUP=yes"}, "hookhost", "attach", "env")
	want := []string{"HOOKHOST_SOCKET=" + f.socket, "PATH=/nowhere", "AB=1", "A=a\nb", "MPICH_PROCESS_GROUP=no", "B=", ""}
	if r.status != 0 || r.stdout != strings.Join(want, "\n") {
		t.Errorf("%+v, want %q", r, want)
	}
}

// A variable may be there twice, which no shell makes but a hostile launcher might.
func TestFrontEnvironmentTwice(t *testing.T) {
	f := newFront(t)
	f.answers(inWords(200, "hookhost/1", "set", "A", "9", "unset", "B", "end"))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, err := syscall.ForkExec(f.dir+"/hookhost", []string{"hookhost", "attach", "/usr/bin/env"}, &syscall.ProcAttr{
		Env: []string{"HOOKHOST_SOCKET=" + f.socket, "A=0", "B=1", "C=2", "A=7", "B=2", "A=8"}, Files: []uintptr{0, w.Fd(), 2}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if want := "HOOKHOST_SOCKET=" + f.socket + "\nA=9\nC=2\nMPICH_PROCESS_GROUP=no\n"; err != nil || string(out) != want {
		t.Errorf("%v %q, want %q", err, out, want)
	}
}

func TestFrontRefused(t *testing.T) {
	f := newFront(t)
	f.answers(inWords(403, "hookhost/1", "refused", "TM_EOWNER", "attach pid 1: it belongs to uid 0", "end"))
	for name, want := range map[string]string{
		"hookhost attach": "hookhost: attach: tm_attach: TM_EOWNER: attach pid 1: it belongs to uid 0\n", "pbs_attach": "pbs_attach: tm_attach: TM_EOWNER: attach pid 1: it belongs to uid 0\n",
	} {
		for _, rest := range []string{"true", "-p 99"} {
			if r := f.run(nil, strings.Fields(name+" "+rest)...); r.status != 1 || r.stderr != want || r.stdout != "" {
				t.Errorf("%s %s: %+v, want %q", name, rest, r, want)
			}
		}
	}
}

// An answer that is not whole, or not understood, and a command that cannot be run.
func TestFrontGivesUp(t *testing.T) {
	whole := inWords(200, "hookhost/1", "set", "A", "1", "end")
	texts := map[string]string{
		"nothing": "", "JSON": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
		"no length":       strings.Replace(whole, "Content-Length", "Content-Weight", 1),
		"another length":  strings.Replace(whole, "Content-Length: ", "Content-Length: 1", 1),
		"another version": inWords(200, "hookhost/2", "end"), "no version": inWords(200, "end"), "no words": inWords(200), "no end": inWords(200, "hookhost/1"),
		"behind the end": inWords(200, "hookhost/1", "end", "x"), "an unknown verb": inWords(200, "hookhost/1", "put", "A", "1", "end"),
		"half a verb": inWords(200, "hookhost/1", "set", "A", "end"), "a verb alone": inWords(200, "hookhost/1", "unset"), "half a refusal": inWords(403, "hookhost/1", "refused", "X"),
		"a refusal that a terminal obeys": inWords(403, "hookhost/1", "refused", "TM_EOWNER", "process 7 (\x1b[2J)", "end"),
		"text behind":                     whole + "x", "another protocol": strings.Replace(whole, "HTTP/1.1", "HTTP/2.0", 1), "much": "HTTP/1.1 200 OK\r\n" + strings.Repeat("x", 2<<20),
		"NUL in the head": strings.Replace(whole, "Content-Type", "\x00ontent-Type", 1),
	}
	texts["a refusal that a terminal obeys"] = inWords(403, "hookhost/1", "refused", "TM_EOWNER", "process 7 (\x1b[2J)", "end")
	for i := range whole {
		texts[fmt.Sprint("the first bytes: ", i)] = whole[:i]
	}
	for name, text := range texts {
		f := newFront(t)
		f.answers(text)
		if r := f.run(nil, "hookhost", "attach", "-j", "1.x", "/bin/true"); r.status != 0 || r.stdout != "full: attach -j 1.x /bin/true\n" || r.stderr != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	f := newFront(t)
	if r := f.run(nil, "hookhost", "attach", "/bin/true"); r.stdout != "full: attach /bin/true\n" {
		t.Errorf("no daemon: %+v", r)
	}
	f.answers(whole)
	if r := f.run([]string{"PATH=/nowhere"}, "hookhost", "attach", "nosuch"); r.stdout != "full: attach nosuch\n" {
		t.Errorf("no command: %+v", r)
	}
}

// With a real daemon a plain attach needs nothing but cmd/front, whoever the user is; what is refused is said and counted once.
func TestFrontAttaches(t *testing.T) {
	n := newNode(t)
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	alone := filepath.Join(t.TempDir(), "hookhost")
	if err := duplicate(filepath.Join(built, "hookhost"), alone); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(alone); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	attach := func(uid uint32, args ...string) result {
		cmd := exec.Command(alone, append([]string{"attach"}, args...)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return n.finish(cmd)
	}
	for _, args := range [][]string{{"-j", job}, nil} {
		r := attach(ownerUID, append(args, "--", "cat", "/proc/self/cgroup")...)
		if r.status != 0 || filepath.Base(cgroupOf(r.stdout, "memory")) != job && filepath.Base(cgroupOf(r.stdout, "")) != job {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := attach(ownerUID+1, "-j", job, "--", "true"); r.status != 1 || r.stderr == "" {
		t.Errorf("another user: %+v", r)
	}
	log, err := os.ReadFile(n.path("log"))
	if said := strings.Count(string(log), "level=warning"); err != nil || said != 1 {
		t.Errorf("%d lines on refusals: %v %s", said, err, log)
	}
}
