package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/report"
)

// The choices of a filter's state; "" is any.
const (
	stateOK     = "ok"
	stateFailed = "failed"
)

// filter says which finished jobs a page has.
type filter struct {
	user, name, state string
	skip              int // so many of those that match are on newer pages
}

func filterOf(query url.Values) (filter, error) {
	f := filter{user: query.Get("user"), name: query.Get("name"), state: query.Get("state")}
	if f.state != "" && f.state != stateOK && f.state != stateFailed {
		return filter{}, fmt.Errorf("%w: state %q: not one of %s, %s", errRequest, f.state, stateOK, stateFailed)
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

// matches reports whether a job is one of the filter's. A name matches in part.
func (f filter) matches(r *report.Report) bool {
	return (f.user == "" || r.Owner == f.user) &&
		strings.Contains(strings.ToLower(r.Name), strings.ToLower(f.name)) &&
		(f.state == "" || r.Failed() == (f.state == stateFailed))
}

// fields returns the form of the filter. A viewer who sees one user's jobs chooses no user.
func (f filter) fields(users bool) []report.Field {
	fields := []report.Field{
		{Name: "name", Label: "Name", Value: f.name},
		{Name: "state", Label: "State", Value: f.state, Choices: []string{"", stateOK, stateFailed}},
	}
	if users {
		fields = append([]report.Field{{Name: "user", Label: "Owner", Value: f.user}}, fields...)
	}
	return fields
}

// page returns the link to another part of the same list, "" for one before its beginning.
func (f filter) page(skip int) string {
	if skip < 0 {
		return ""
	}
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
