package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/report"
)

// searchPage shows the report of the job that a text names by its id or number. For a name, or if
// several jobs match, it lists live jobs and the newest finished ones.
func searchPage(s *server, v viewer, w http.ResponseWriter, r *http.Request) error {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	if query == "" {
		return redirect(w, "finished")
	}
	choice := report.Filter{User: v.user, Limit: mostSeen}
	matches := func(rep *report.Report) bool {
		return strings.Contains(strings.ToLower(rep.Name), strings.ToLower(query))
	}
	if hostapi.CheckJobID(query) == nil {
		choice.Job = query
		matches = choice.MatchesJob
	}
	live, err := s.liveJobs(r.Context(), v)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(live, func(rep *report.Report) bool { return !matches(rep) })
	seen := 0
	failed := s.daemon.Finished(r.Context(), choice, func(text json.RawMessage) bool {
		seen++
		if rep, err := report.FromArchive(text); err == nil && v.sees(rep.PBSJob) && matches(rep) {
			found = append(found, rep)
		}
		return len(found) < onePage && seen < mostSeen
	})
	if failed != nil && !errors.Is(failed, api.ErrDamaged) {
		return failed
	}
	if id := onlyJob(found); id != "" && choice.Job != "" {
		return redirect(w, "jobs/"+url.PathEscape(id))
	}
	h := s.newHTML(r, "", "")
	h.Title, h.JobPath = "Search", "jobs/"
	switch {
	case len(found) == 0:
		h.Remark = fmt.Sprintf("No job is called %q.", query)
	case len(found) == onePage:
		h.Remark = fmt.Sprintf("The newest %d jobs that match.", onePage)
	}
	return write(w, func(w io.Writer) error { return h.WriteTable(w, slices.Values(found)) })
}

// redirect answers with another page. http.Redirect would make the address absolute, without the
// path below which a proxy or the token has these pages.
func redirect(w http.ResponseWriter, page string) error {
	w.Header().Set("Location", page)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// onlyJob returns the id that all reports have, or "".
func onlyJob(reports []*report.Report) string {
	id := ""
	for _, r := range reports {
		if id != "" && id != r.Job {
			return ""
		}
		id = r.Job
	}
	return id
}
