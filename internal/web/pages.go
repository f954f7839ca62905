package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/report"
)

// links returns the links to the other pages. They are relative, because a proxy may serve the
// pages below another path.
func links(up, here string) []report.Link {
	list := []report.Link{{Text: "Jobs now", URL: up + "./"}, {Text: "Finished", URL: up + "finished"}}
	for i := range list {
		list[i].Here = list[i].Text == here
	}
	return list
}

// How often the browser loads a page again. The report of a live job is measured each time.
const (
	jobsRefresh   = 30 * time.Second
	reportRefresh = time.Minute
)

// newHTML returns a page with links, the search, the name of the node and the time. up leads to the
// directory of the jobs' page, and here is the text of the link to this page.
func (s *server) newHTML(r *http.Request, up, here string) report.HTML {
	node, _ := s.daemon.Node(r.Context()) // what the page needs itself fails with its reason
	return report.HTML{
		Links: links(up, here), Search: up + "search", Query: r.URL.Query().Get("q"),
		Node: hostapi.Printable(node), AsOf: time.Now(),
	}
}

// refreshing makes the browser load a page again, unless the request says no. here is the page.
func refreshing(h *report.HTML, r *http.Request, here string, every time.Duration) {
	if r.URL.Query().Get("refresh") == "off" {
		h.Switch = report.Link{Text: "refresh", URL: here}
		return
	}
	h.Refresh, h.Switch = every, report.Link{Text: "stop", URL: here + "?refresh=off"}
}

// jobsPage lists the live jobs, newest first, with their usage of this host.
func jobsPage(s *server, v viewer, w http.ResponseWriter, r *http.Request) error {
	jobs, err := s.liveJobs(r.Context(), v)
	if err != nil {
		return err
	}
	h := s.newHTML(r, "", "Jobs now")
	h.Title, h.JobPath = "Jobs now", "jobs/"
	refreshing(&h, r, "./", jobsRefresh)
	return write(w, func(w io.Writer) error { return h.WriteTable(w, slices.Values(jobs)) })
}

// liveJobs returns the reports of the live jobs that a viewer sees, newest first.
func (s *server) liveJobs(ctx context.Context, v viewer) ([]*report.Report, error) {
	jobs, err := s.daemon.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool { return !v.sees(j.Job) })
	slices.SortStableFunc(jobs, func(a, b api.Job) int { return b.Begun.Compare(a.Begun) })
	var list []*report.Report
	for _, j := range jobs {
		list = append(list, live(j))
	}
	return list, nil
}

// live returns the report of a live job without asking its hooks.
func live(j api.Job) *report.Report {
	rec := &jobstate.Record{
		Job: j.Job, Phase: j.Phase, Begun: j.Begun, Launched: jobstate.Moment{Wall: j.Launched},
		Hosts: j.Hosts, Diag: j.Diag, Notes: j.Notes,
	}
	r := report.FromRecord(rec, time.Time{}, time.Duration(j.Elapsed*float64(time.Second)))
	r.WalltimeLeft = j.Left
	return r
}

// reportPage shows the report of one job. Another owner's job is not measured for a viewer.
func reportPage(s *server, v viewer, w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := hostapi.CheckJobID(id); err != nil {
		return fmt.Errorf("%w: %w", errRequest, err)
	}
	notFound := fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	if v.user != "" {
		jobs, err := s.daemon.Jobs(r.Context())
		if err != nil {
			return err
		}
		another := func(j api.Job) bool { return j.Job != nil && j.Job.ID == id && !v.sees(j.Job) }
		if slices.ContainsFunc(jobs, another) {
			return earlierPage(s, v, w, r, notFound)
		}
	}
	text, err := s.daemon.Report(r.Context(), id)
	if err != nil && v.user != "" && !errors.Is(err, api.ErrNoHost) {
		return notFound // the daemon answered the server's user, not the viewer
	}
	if err != nil {
		return err
	}
	rep, err := report.FromArchive(text)
	if err != nil {
		return err
	}
	if !v.sees(rep.PBSJob) {
		return earlierPage(s, v, w, r, notFound)
	}
	h := s.newHTML(r, "../", "")
	if rep.End == nil {
		refreshing(&h, r, url.PathEscape(id), reportRefresh)
	} else {
		h.AsOf = time.Time{}
	}
	return write(w, func(w io.Writer) error { return h.WriteReport(w, rep) })
}

// earlierPage shows the report of the viewer's last finished job with an id that another owner's
// job has used since. The report has no series, because the daemon has those of the last job only.
func earlierPage(s *server, v viewer, w http.ResponseWriter, r *http.Request, notFound error) error {
	var found *report.Report
	err := s.daemon.Finished(r.Context(), filter{}.choice(v.user), func(text json.RawMessage) bool {
		rep, err := report.FromArchive(text)
		if err == nil && rep.Job == r.PathValue("id") && v.sees(rep.PBSJob) {
			found = rep
		}
		return found == nil
	})
	if err != nil && !errors.Is(err, api.ErrDamaged) {
		return err
	}
	if found == nil {
		return notFound
	}
	h := s.newHTML(r, "../", "")
	h.AsOf = time.Time{}
	return write(w, func(w io.Writer) error { return h.WriteReport(w, found) })
}

const (
	onePage  = 50    // jobs
	mostSeen = 20000 // reports to read for a page, which takes some seconds
)

// finishedPage lists finished jobs, newest first.
func finishedPage(s *server, v viewer, w http.ResponseWriter, r *http.Request) error {
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return err
	}
	var shown []*report.Report
	seen, matched, more := 0, 0, false
	failed := s.daemon.Finished(r.Context(), f.choice(v.user), func(text json.RawMessage) bool {
		seen++
		rep, err := report.FromArchive(text)
		if err != nil || !v.sees(rep.PBSJob) || !f.matches(rep) {
			return seen < mostSeen
		}
		matched++
		if more = len(shown) == onePage; !more && matched > f.skip {
			shown = append(shown, rep)
		}
		return !more && seen < mostSeen
	})
	h := s.newHTML(r, "", "Finished")
	h.Title, h.JobPath, h.Fields = "Finished jobs", "jobs/", f.fields(s.access.All && v.user == "")
	switch {
	case errors.Is(failed, api.ErrDamaged):
		h.Remark = "Some reports are damaged and not here."
	case failed != nil:
		return failed
	case seen == mostSeen:
		h.Remark = fmt.Sprintf("The newest %d jobs were looked at.", mostSeen)
	}
	if more {
		h.Older = f.page(f.skip + onePage)
	}
	if f.skip > 0 {
		h.Newer = f.page(max(0, f.skip-onePage))
	}
	return write(w, func(w io.Writer) error { return h.WriteTable(w, slices.Values(shown)) })
}

// write answers with a page.
func write(w http.ResponseWriter, page func(io.Writer) error) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return page(w)
}
