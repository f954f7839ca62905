package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestSearchFindsAJobByNumberOrName(t *testing.T) {
	h := Handler(&jobs{finished: 120}, Access{All: true})
	for query, want := range map[string]string{
		"2": "jobs/2.srv", "2.srv": "jobs/2.srv", "+77+": "jobs/77.srv", "": "finished",
	} {
		w := get(t, h, "/search?q="+query)
		must.Equal(t, query, http.StatusSeeOther, w.Code)
		must.Equal(t, query, want, w.Header().Get("Location"))
	}
	for query, want := range map[string]string{
		"JOB+12": "122 121 120 12", "job+2.srv": "2", "999": "", "nothing": "", "%3Cscript%3E": "",
	} {
		w := get(t, h, "/search?q="+query)
		must.Equal(t, query, want, shown(w))
		body := w.Body.String()
		if (want == "") != strings.Contains(body, "No job is called") || strings.Contains(body, "<script") {
			t.Errorf("%s: %s", query, body)
		}
	}
	if body := get(t, h, "/search?q=job").Body.String(); !strings.Contains(body, "The newest 50 jobs that match.") {
		t.Error(body)
	}
}

func TestSearchShowsNoOthersJobs(t *testing.T) {
	h := Handler(&jobs{finished: 6}, Access{UserHeader: "X-User", All: true})
	must.Equal(t, "another's live job", "", shown(get(t, h, "/search?q=2.srv", "X-User: alice")))
	must.Equal(t, "another's finished job", "", shown(get(t, h, "/search?q=6", "X-User: alice")))
	must.Equal(t, "by name", "1 8 7 5 4", shown(get(t, h, "/search?q=job", "X-User: alice")))
}

func TestLivePagesAreLoadedAgainWithoutAScript(t *testing.T) {
	h := Handler(&jobs{finished: 6}, Access{All: true})
	const again = `<meta http-equiv="refresh" content="`
	for page, want := range map[string]string{"/": "30", "/jobs/1.srv": "60", "/jobs/5.srv": "", "/finished": ""} {
		body := get(t, h, page).Body.String()
		must.Equal(t, page+" is loaded again", want != "", strings.Contains(body, again+want))
		must.Equal(t, page+" names the node", true, strings.Contains(body, `<span class="node"><b>n1</b>`))
		must.Equal(t, page+" has the time of its figures", page != "/jobs/5.srv", strings.Contains(body, " updated "))
		off := get(t, h, page+"?refresh=off").Body.String()
		must.Equal(t, page+" without it", false, strings.Contains(off, again))
	}
}
