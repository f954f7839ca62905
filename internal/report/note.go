package report

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// note is a remark of a hook or of the host. Its time may be unknown.
type note struct {
	at   time.Time
	text string
}

// noted returns the notes without the advice.
func (r *Report) noted() []note {
	var list []note
	advice := texts(r.Advice)
	for i, text := range r.Notes {
		if slices.Contains(advice, text) {
			continue
		}
		n := note{text: text}
		if i < len(r.NoteTimes) {
			n.at = r.NoteTimes[i]
		}
		list = append(list, n)
	}
	return list
}

// killedProcess is in the kernel's message about a kill, and in a note by hook cgroup.
const killedProcess = "Killed process "

// ownLimit is what hook cgroup reports to PBS of a kill for the job's own mem. The outcome says it
// too.
const ownLimit = "Cgroup mem limit exceeded"

// remarks returns the notes for people: those with a kernel's message apart, because it is long and
// few can read it. A note begins with its time, if that is known, and with its day if the job began
// on another one.
func (r *Report) remarks() (notes, kernel []string) {
	for _, host := range slices.Sorted(maps.Keys(r.DiagMessages)) {
		if text := r.DiagMessages[host]; strings.Contains(text, killedProcess) && len(kernel) < mostBars {
			kernel = append(kernel, host+": "+text)
		}
	}
	for _, n := range r.noted() {
		if !n.at.IsZero() {
			n.text = r.timeOf(n.at) + "  " + n.text
		}
		if strings.Contains(n.text, killedProcess) {
			kernel = append(kernel, n.text)
		} else {
			notes = append(notes, n.text)
		}
	}
	return notes, kernel
}

// headline returns the one line about the job in a list: its first advice, else its first note.
func (r *Report) headline() string {
	if len(r.Advice) > 0 {
		return r.Advice[0].String()
	}
	for _, n := range r.noted() {
		if !strings.Contains(n.text, killedProcess) {
			return n.text
		}
	}
	return ""
}

func (r *Report) timeOf(at time.Time) string {
	if r.Start == nil {
		return at.Format(time.DateTime)
	}
	at = at.In(r.Start.Location())
	if at.Format(time.DateOnly) == r.Start.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format("01-02 15:04:05")
}
