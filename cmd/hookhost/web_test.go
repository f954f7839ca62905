package main_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// site is a running `hookhost web`.
type site struct {
	n       *node
	cmd     *exec.Cmd
	address string // as it was printed
	client  http.Client
}

// web starts a server as a user.
func (n *node) web(uid uint32, args ...string) *site {
	n.t.Helper()
	cmd := n.command(append([]string{"web"}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stderr = append(n.env(), "HOOKHOST_CONFIG="), "/", os.Stderr
	if uid != 0 {
		cmd.SysProcAttr = userOf(uid)
	}
	out, err := cmd.StdoutPipe()
	must.NoError(n.t, err, cmd.Start())
	s := &site{n: n, cmd: cmd}
	n.t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	must.NoError(n.t, err)
	s.address = strings.TrimSpace(line)
	if path, isUnix := strings.CutPrefix(s.address, "unix:"); isUnix {
		s.address = "http://proxy/"
		s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	return s
}

// stop ends the server by SIGTERM, which is no failure.
func (s *site) stop() {
	if s.cmd == nil {
		return
	}
	s.client.CloseIdleConnections()
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.n.t.Errorf("web ended with %v", err)
	}
	s.cmd = nil
}

// get asks for a page, as a user whom a proxy names if that is not "".
func (s *site) get(page, user string) (status int, body string) {
	s.n.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.address+page, nil)
	must.NoError(s.n.t, err)
	if user != "" {
		r.Header.Set("X-User", user)
	}
	resp, err := s.client.Do(r)
	must.NoError(s.n.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.NoError(s.n.t, err)
	return resp.StatusCode, string(text)
}

// Root's server shows all jobs, a user's own jobs alone, and one behind a proxy those of the user
// whom the proxy names. A job is shown while it lives, and after.
func TestWebShowsToEachUserTheJobsOfThatUser(t *testing.T) {
	n := openNode(t)
	n.finished("1.x", ownerUID)
	n.finished("2.x", strangerUID)
	n.serve()
	run := n.command("run", "-u", "nobody", "-l", "select=1:ncpus=1:mem=64mb", "-N", "alive", "--", "sleep", "1000")
	must.NoError(t, run.Start())
	defer func() {
		run.Process.Signal(syscall.SIGTERM)
		run.Wait()
	}()
	root, owner, stranger := n.web(0), n.web(ownerUID), n.web(strangerUID)
	socket := n.path("proxy")
	proxied := n.web(0, "--listen", "unix:"+socket, "--socket-user", "nobody", "--user-header", "X-User")
	must.Eventually(t, "the job that runs is shown", func() bool {
		_, body := root.get("", "")
		return strings.Contains(body, "alive")
	})
	for _, tt := range []struct {
		name       string
		site       *site
		user       string
		live       bool
		own, other bool
	}{
		{"root", root, "", true, true, true}, {"the owner", owner, "", true, true, false},
		{"a stranger", stranger, "", false, false, true}, {"nobody by the proxy", proxied, "nobody", true, true, false},
		{"somebody by the proxy", proxied, "daemon", false, false, false},
	} {
		_, now := tt.site.get("", tt.user)
		_, ended := tt.site.get("finished", tt.user)
		own, _ := tt.site.get("jobs/1.x", tt.user)
		other, _ := tt.site.get("jobs/2.x", tt.user)
		if strings.Contains(now, "alive") != tt.live || strings.Contains(ended, "1.x") != tt.own ||
			strings.Contains(ended, "2.x") != tt.other || (own == 200) != tt.own || (other == 200) != tt.other {
			t.Errorf("%s: now %s\nfinished %s\n%d, %d", tt.name, now, ended, own, other)
		}
	}
	if status, body := proxied.get("finished", ""); status != 403 || strings.Contains(body, "1.x") {
		t.Errorf("without a user's name: %d %s", status, body)
	}
	info, err := os.Stat(socket)
	must.NoError(t, err)
	if info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != ownerUID {
		t.Errorf("the socket: %v", info)
	}
	// A token is for its own server alone, and without one nothing is shown.
	bare, _, _ := strings.Cut(strings.TrimPrefix(root.address, "http://"), "/")
	token := strings.Split(owner.address, "/")[3]
	for _, address := range []string{"http://" + bare + "/", "http://" + bare + "/" + token + "/"} {
		root.address = address
		if status, body := root.get("finished", ""); status != 404 || strings.Contains(body, "1.x") {
			t.Errorf("%s: %d %s", address, status, body)
		}
	}
	for _, s := range []*site{root, owner, stranger, proxied} {
		s.stop()
	}
	if exists(socket) {
		t.Error("the socket is left behind")
	}
}

func TestWebIsForLoopbackAndUnixSocketsAlone(t *testing.T) {
	n := newNode(t)
	for _, args := range [][]string{{"--listen", "0.0.0.0:8080"}, {"--listen", ":8080"}, {"--user-header", "X-User"},
		{"--socket-user", "nobody"}, {"--listen", "unix:here"}, {"extra"},
		{"--listen", "unix:" + n.dir + "/web", "--user-header", ""},
		{"--listen", "unix:" + n.dir + "/web", "--user-header", "X-Remote-User:"}} {
		if r := n.hookhost(append([]string{"web"}, args...)...); r.status != 2 || r.stdout != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	s := n.web(0)
	if status, body := s.get("", ""); status != 503 || !strings.Contains(body, "No daemon runs") {
		t.Errorf("without a daemon: %d %s", status, body)
	}
}
