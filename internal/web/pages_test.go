package web

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

func TestPagesChangeNothing(t *testing.T) {
	h := Handler(&jobs{finished: 3}, Access{All: true})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/finished", nil))
		must.Equal(t, method, http.StatusMethodNotAllowed, w.Code)
	}
	for target, want := range map[string]int{"/favicon.ico": 204, "/nothing": 404, "/jobs/../finished": 307,
		"/jobs/%2e%2e%2f1": 400, "/finished?skip=-1": 400, "/finished?state=odd": 400, "/finished?skip=1e9": 400} {
		must.Equal(t, target, want, get(t, h, target).Code)
	}
}

func TestFinishedJobsComeInPagesAndByFilters(t *testing.T) {
	h := Handler(&jobs{finished: 120}, Access{All: true})
	target, pages := "/finished", 0
	var all []string
	for target != "" {
		w := get(t, h, target)
		all = append(all, strings.Fields(shown(w))...)
		target, pages = "", pages+1
		if next := older.FindStringSubmatch(w.Body.String()); next != nil {
			target = "/" + html.UnescapeString(next[1])
		}
	}
	must.Equal(t, "pages", 3, pages)
	must.Equal(t, "jobs", 120, len(all))
	must.Equal(t, "the newest", "122", all[0])
	must.Equal(t, "the oldest", "3", all[len(all)-1])
	for query, want := range map[string]string{
		"user=bob&state=failed": "120 105 90 75 60 45 30 15", "name=JOB+11&state=failed": "115 110",
		"name=%3Cscript%3E": "", "user=bob&name=job+12": "120 12",
	} {
		must.Equal(t, query, want, shown(get(t, h, "/finished?"+query)))
	}
	if body := get(t, h, "/finished?name=%22%3E%3Cscript%3E").Body.String(); strings.Contains(body, "<script") {
		t.Error(body)
	}
}

func TestErrorsOfTheDaemonAreSaid(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		want   string
	}{
		{fmt.Errorf("connect to /s: %w", api.ErrNoHost), 503, "No daemon runs"},
		{fmt.Errorf("<b>broken</b>"), 502, "&lt;b&gt;broken"},
	} {
		h := Handler(&jobs{err: tt.err}, Access{All: true})
		for _, page := range []string{"/", "/finished"} {
			if w := get(t, h, page); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s: %d %s", page, w.Code, w.Body)
			}
		}
	}
	h := Handler(&jobs{finished: 2, err: fmt.Errorf("2 lines: %w", api.ErrDamaged)}, Access{All: true})
	w := get(t, h, "/finished")
	if shown(w) != "4 3" || !strings.Contains(w.Body.String(), "Some reports are damaged") {
		t.Errorf("damaged reports: %d %s", w.Code, w.Body)
	}
}
