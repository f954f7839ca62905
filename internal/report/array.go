package report

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Array summarizes the subjobs of a job array.
type Array struct {
	id      string
	subjobs []*Report // each once, by index
	figures []totals  // of subjobs
}

// ArrayOf returns the summary of the subjobs among the reports, or false if there is none. Of a
// subjob that ran several times, the newest run counts.
func ArrayOf(id string, reports iter.Seq[*Report]) (a *Array, some bool) {
	newest := map[string]*Report{}
	for r := range reports {
		if !pbs.InArray(id, r.Job) {
			continue
		}
		if other := newest[r.Job]; other == nil || newness(r).number > newness(other).number {
			newest[r.Job] = r
		}
	}
	a = &Array{id: id}
	for _, r := range newest {
		a.id, _, _ = pbs.Subjob(r.Job)
		a.subjobs = append(a.subjobs, r)
	}
	slices.SortFunc(a.subjobs, func(r, s *Report) int {
		return cmp.Or(cmp.Compare(indexOf(r), indexOf(s)), strings.Compare(r.Job, s.Job))
	})
	for _, r := range a.subjobs {
		a.figures = append(a.figures, r.totals())
	}
	return a, len(a.subjobs) > 0
}

func indexOf(r *Report) int {
	_, index, _ := pbs.Subjob(r.Job)
	return index
}

// ArrayIn returns the array to whose subjobs all parts belong. It returns "" if there is none, or
// if all parts are of one subjob.
func ArrayIn(parts []Part) string {
	array, several := "", false
	for i, p := range parts {
		of, _, is := pbs.Subjob(p.Job)
		if !is || i > 0 && of != array {
			return ""
		}
		array, several = of, several || p.Job != parts[0].Job
	}
	if !several {
		return ""
	}
	return array
}

// JoinEach joins the parts of each run of a job.
func JoinEach(parts []Part) ([]*Report, error) {
	type run struct {
		job            string
		version, count int
	}
	byRun := map[run][]Part{}
	for _, p := range parts {
		key := run{p.Job, p.PBSJob.RunVersion, p.PBSJob.RunCount}
		byRun[key] = append(byRun[key], p)
	}
	var list []*Report
	for _, of := range byRun {
		r, err := Join(of)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// WriteText writes the summary as a text for a person, as wide as Text. The summary has a subjob.
func (a *Array) WriteText(w io.Writer, columns int) error {
	p := &page{columns: max(columns, pageColumns), names: binColumns}
	first := a.subjobs[0]
	p.line("Array", "%s", a.id)
	if first.Name != "" {
		p.line("Name", "%s", first.Name)
	}
	p.line("Owner", "%s", first.ownerInQueue())
	for i, text := range a.outcomes() {
		p.line(labelled("Outcome", i), "%s", text)
	}
	for i, advice := range a.advice() {
		p.line(labelled("Advice", i), "%s", advice)
	}
	a.writeFacts(p)
	_, err := w.Write(p.Bytes())
	return err
}

// outcomes counts the subjobs by their outcomes, and names those that did not complete.
func (a *Array) outcomes() []string {
	byWords := map[string][]int{}
	var order []string
	completed := 0
	for _, r := range a.subjobs {
		words := r.Outcome.Words
		if r.Outcome.State == stateOK {
			completed++
			continue
		}
		if byWords[words] == nil {
			order = append(order, words)
		}
		byWords[words] = append(byWords[words], indexOf(r))
	}
	slices.SortStableFunc(order, func(x, y string) int { return cmp.Compare(len(byWords[y]), len(byWords[x])) })
	list := []string{fmt.Sprintf("%d of %s completed", completed, count(int64(len(a.subjobs)), "subjob", "subjobs"))}
	for i, words := range order {
		if i == mostBars {
			return append(list, fmt.Sprintf("and %d more outcomes", len(order)-mostBars))
		}
		noun := "subjobs"
		if len(byWords[words]) == 1 {
			noun = "subjob"
		}
		list = append(list, fmt.Sprintf("%d %s: %s %s", len(byWords[words]), words, noun, indices(byWords[words])))
	}
	return list
}

// indices names sorted indices, at most 8 spans of them.
func indices(list []int) string {
	parts := strings.Split(spans(list), ",")
	text := strings.Join(parts[:min(len(parts), mostNamed)], ", ")
	if len(parts) > mostNamed {
		text += " ..."
	}
	return text
}

// writeFacts writes what the subjobs have in common, and how their use is distributed.
func (a *Array) writeFacts(p sheet) {
	if text := a.common((*Report).request); text != "" {
		p.line("Request", "%s for each", text)
	}
	hosts := map[string]bool{}
	var from, to time.Time
	for _, r := range a.subjobs {
		for _, host := range r.allHosts() {
			hosts[host] = true
		}
		if r.Start != nil && (from.IsZero() || r.Start.Before(from)) {
			from = *r.Start
		}
		if r.End != nil && r.End.After(to) {
			to = *r.End
		}
	}
	writeHosts(p, slices.Sorted(maps.Keys(hosts)), false)
	if !from.IsZero() && !to.IsZero() {
		p.line("Ran", "%s to %s", from.Format(timeLayout), to.Format(timeLayout))
	}
	for _, d := range a.distributions() {
		d.write(p)
	}
}

// common returns what of returns for every subjob, or "" if they differ.
func (a *Array) common(of func(*Report) string) string {
	text := of(a.subjobs[0])
	for _, r := range a.subjobs {
		if of(r) != text {
			return ""
		}
	}
	return text
}
