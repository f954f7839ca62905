package api

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// Root connects however many uids do. A refused user hears why, and the log hears it once.
func TestConnectionsOfAllUsers(t *testing.T) {
	socket := filepath.Join(socketDir(t), "run", "s")
	l, err := Listen(socket)
	must.NoError(t, err)
	l.users = &shares{most: 20, each: 8}
	said := make(chan string, 100)
	l.Refused = func(peer Peer, call string, err error) { said <- peer.String() + " " + call + ": " + err.Error() }
	b := &backend{}
	if b.procfs, err = kernfs.Open("/proc"); err != nil {
		t.Fatal(err)
	}
	serveOn(t, NewServer(b, b, b, b), l)
	if got := strings.TrimSpace(string(helper(t, nobody, "hold", socket, "30"))); got != "8" {
		t.Errorf("uid %d holds %s connections, want 8", nobody, got)
	}
	want := fmt.Sprintf("uid %d connect: uid %[1]d has 8 connections, which is the limit", nobody)
	if got := <-said; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	// Other users, of whom nothing is to be seen here.
	for name, n := range map[string]int{"uid 7": 8, "uid 8": 8, "uid 9": 4} {
		for range n {
			for l.users.enter(name) != nil { // until those of the helper are given back
				t.Log(name, "waits")
			}
		}
	}
	// A request would be answered likewise, unless the host hangs up before it is written.
	a := string(helper(t, nobody, "hear", socket))
	if !strings.HasPrefix(a, "HTTP/1.1 409") ||
		!strings.HasSuffix(a, "all users have 20 connections, which is the limit\",\"kind\":\"busy\"}\n") {
		t.Errorf("uid %d hears %q", nobody, a)
	}
	if a, err := rawCall(socket, "GET", "/v1/jobs", ""); err != nil || a.Status != 200 {
		t.Errorf("root: %+v, %v", a, err)
	}
	if len(said) > 0 {
		t.Errorf("said again: %s", <-said)
	}
}
