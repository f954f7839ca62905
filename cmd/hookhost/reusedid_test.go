package main_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A job id was given anew, as by a server that lost its database. Each owner has the report of the
// own job, also while another one's job of that id lives; root has the newest.
func TestReportOfAReusedIDIsTheCallersOwn(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	n.open()
	n.finished("1.x", ownerUID)
	n.finished("1.x", strangerUID)
	n.serve()
	proxied := n.web(0, "--listen", "unix:"+n.path("proxy"), "--user-header", "X-User")
	wantOwn := func() {
		t.Helper()
		for uid, owner := range map[uint32]string{ownerUID: "nobody", strangerUID: "somebody"} {
			r := n.as(uid, "report", "1.x", "--json")
			if r.status != 0 || !strings.Contains(r.stdout, `"owner":"`+owner+`"`) {
				t.Errorf("%s: %+v", owner, r)
			}
			if status, body := proxied.get("jobs/1.x", owner); status != 200 || !strings.Contains(body, owner) {
				t.Errorf("%s by the proxy: %d %s", owner, status, body)
			}
		}
	}
	wantOwn()
	if r := n.as(1, "report", "1.x"); r.status != 1 || strings.Contains(r.stdout, "body") {
		t.Errorf("a third user: %+v", r)
	}
	n.event("execjob_begin", "1.x", "")
	wantOwn()
	n.event("execjob_end", "1.x", "")
}
