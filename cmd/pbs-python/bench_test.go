package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// BenchmarkEvent is the stand-in from start to end for an event that a daemon accepts at once,
// beside a program of Go's that does nothing. The daemon's work is not in it.
func BenchmarkEvent(b *testing.B) {
	p := newPlace(b)
	os.Remove(p.path("pbs_python")) // the test's own program initialises more
	p.write("nothing.go", "//go:debug containermaxprocs=0\n//go:debug updatemaxprocs=0\npackage main\n\nfunc main() "+
		"{}\n", 0o600)
	for out, source := range map[string]string{"pbs_python": ".", "nothing": p.path("nothing.go")} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.path(out), source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("build %s: %v\n%s", out, err, text)
		}
	}
	serveAccept(b, p.path("sock"))
	run := func(b *testing.B, name string, args ...string) {
		for b.Loop() {
			cmd := &exec.Cmd{Path: p.path(name), Args: append([]string{name}, args...),
				Env: []string{"PBS_HOOK_CONFIG_FILE=" + p.path("hookhost.CF")}}
			must.NoError(b, cmd.Run())
		}
	}
	b.Run("nothing", func(b *testing.B) { run(b, "nothing") })
	b.Run("standin", func(b *testing.B) { run(b, "pbs_python", p.momArgs(p.path("hookhost.PY"))...) })
}

// serveAccept answers each request with the text of an accept.
func serveAccept(b *testing.B, socket string) {
	l, err := net.Listen("unix", socket)
	must.NoError(b, err)
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				io.Copy(io.Discard, r.Body)
				io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Type: "+typeOutput+"\r\n\r\n"+accepted)
			}
			c.Close()
		}
	}()
}
