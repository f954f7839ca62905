package web

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/report"
)

// stateChoices are the states of a job that the form offers, as in report.StateNames; "" is any.
var stateChoices = []report.Choice{
	{Value: "", Text: "any"}, {Value: "ok", Text: "completed"}, {Value: "failed", Text: "failed"},
	{Value: "killed", Text: "killed by a signal"}, {Value: "oom", Text: "out of memory"},
	{Value: "timeout", Text: "walltime exceeded"}, {Value: "cancelled", Text: "cancelled"},
	{Value: "node_failure", Text: "node failure"}, {Value: "not_started", Text: "not started"},
}

// filter selects the finished jobs of a page.
type filter struct {
	user, name, state string
	skip              int // the number of matching jobs on newer pages
}

func filterOf(query url.Values) (filter, error) {
	f := filter{user: query.Get("user"), name: query.Get("name"), state: query.Get("state")}
	if err := f.choice("").Check(); err != nil {
		return filter{}, fmt.Errorf("%w: %w", errRequest, err)
	}
	if text := query.Get("skip"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostSeen {
			return filter{}, fmt.Errorf("%w: skip %q: not a number up to %d", errRequest, text, mostSeen)
		}
		f.skip = n
	}
	return f, nil
}

// choice returns the filter for the daemon: jobs of viewer, or of anyone for "".
func (f filter) choice(viewer string) report.Filter {
	choice := report.Filter{User: cmp.Or(viewer, f.user), Limit: mostSeen}
	if f.state != "" {
		choice.States = []string{f.state}
	}
	return choice
}

// matches reports whether a job matches the filter. A part of the name is enough.
func (f filter) matches(r *report.Report) bool {
	return f.choice("").Matches(r) && strings.Contains(strings.ToLower(r.Name), strings.ToLower(f.name))
}

// fields returns the form of the filter. If the viewer sees only one user's jobs, the form has no
// field for the user.
func (f filter) fields(users bool) []report.Field {
	fields := []report.Field{
		{Name: "name", Label: "Name", Value: f.name},
		{Name: "state", Label: "State", Value: f.state, Choices: stateChoices},
	}
	if users {
		fields = append([]report.Field{{Name: "user", Label: "Owner", Value: f.user}}, fields...)
	}
	return fields
}

// page returns the link to another part of the same list.
func (f filter) page(skip int) string {
	query := url.Values{}
	for name, value := range map[string]string{"user": f.user, "name": f.name, "state": f.state} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if skip > 0 {
		query.Set("skip", strconv.Itoa(skip))
	}
	return "finished?" + query.Encode()
}
