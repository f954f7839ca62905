package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Each user whom a proxy has logged in sees own jobs and no other's, and no daemon measures
// another's job for that user.
func TestUserOfAProxySeesOwnJobsAlone(t *testing.T) {
	d := &jobs{finished: 6}
	h := Handler(d, Access{UserHeader: "X-Remote-User", All: true})
	for user, want := range map[string]struct{ now, ended string }{
		"alice": {"1", "8 7 5 4"}, "bob": {"2", "6 3"}, "carol": {"", ""}, "root": {"", ""}, "1000": {"", ""},
	} {
		header := "X-Remote-User: " + user
		must.Equal(t, user+" now", want.now, shown(get(t, h, "/", header)))
		must.Equal(t, user+" finished", want.ended, shown(get(t, h, "/finished", header)))
		must.Equal(t, user+" finished of bob", user == "bob", shown(get(t, h, "/finished?user=bob", header)) != "")
		for n := 1; n <= 9; n++ {
			id := fmt.Sprint(n)
			d.measured = nil
			status, own := get(t, h, "/jobs/"+id+".srv", header).Code, false
			for _, list := range []string{want.now, want.ended} {
				own = own || strings.Contains(" "+list+" ", " "+id+" ")
			}
			refused := status == http.StatusNotFound && (n > 2 || d.measured == nil)
			if own && status != http.StatusOK || !own && !refused {
				t.Errorf("%s, job %d: status %d, measured %v", user, n, status, d.measured)
			}
		}
	}
	for _, headers := range [][]string{nil, {"X-Remote-User: "}, {"X-Remote-User: alice", "X-Remote-User: bob"}} {
		for _, page := range []string{"/", "/finished", "/jobs/1.srv"} {
			w := get(t, h, page, headers...)
			if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), ".srv") {
				t.Errorf("%s with %q: %d %s", page, headers, w.Code, w.Body)
			}
		}
	}
}

func TestAnotherUsersJobIsAnsweredAsNone(t *testing.T) {
	h := Handler(&jobs{finished: 6}, Access{UserHeader: "X-Remote-User", All: true})
	answers := map[string]bool{}
	for _, id := range []string{"2.srv", "3.srv", "77.srv"} {
		w := get(t, h, "/jobs/"+id, "X-Remote-User: alice")
		answers[fmt.Sprint(w.Code, strings.ReplaceAll(w.Body.String(), id, "ID"))] = true
	}
	must.Equal(t, "different answers", 1, len(answers))
}

// On an address that every user of the host can reach, only who has the token is let in.
func TestNobodyWithoutTheTokenIsLetIn(t *testing.T) {
	h := Handler(&jobs{finished: 3}, Access{Token: "SECRET", All: true})
	for _, tt := range []struct {
		target, host string
		status       int
	}{
		{"/SECRET/", "127.0.0.1:4711", 200}, {"/SECRET/finished", "localhost:8080", 200},
		{"/SECRET/jobs/1.srv", "[::1]:80", 200}, {"/SECRET", "127.0.0.1", 303},
		{"/", "127.0.0.1", 404}, {"/finished", "127.0.0.1", 404}, {"/jobs/1.srv", "127.0.0.1", 404},
		{"/SECRETS/", "127.0.0.1", 404}, {"/secret/", "127.0.0.1", 404}, {"//SECRET/", "127.0.0.1", 404},
		{"/x/../SECRET/../finished", "127.0.0.1", 404}, {"/?token=SECRET", "127.0.0.1", 404},
		{"/SECRET/", "evil.example", 403}, {"/SECRET/", "evil.example:80", 403}, {"/SECRET/", "10.0.0.1", 403},
		{"/SECRET/", "localhost.evil.example", 403}, {"/SECRET/", "", 403},
	} {
		w := get(t, h, tt.target, "Host: "+tt.host)
		if w.Code != tt.status || w.Code != 200 && w.Code != 303 && strings.Contains(w.Body.String(), "srv") {
			t.Errorf("%s of %q: %d %s", tt.target, tt.host, w.Code, w.Body)
		}
	}
}
