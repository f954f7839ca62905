package reports

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/passwd"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
)

// choice is a query, prepared for comparison with file names.
type choice struct {
	Query
	uid   int  // of the requested user
	named bool // the uid is known
}

func choiceOf(q Query) choice {
	c := choice{Query: q}
	if q.User != "" {
		c.uid, c.named = uidOf(q.User)
	}
	return c
}

// uidOf returns the uid of the user with that name or number, or false if this node does not know
// the user.
func uidOf(name string) (uid int, known bool) {
	uid, err := strconv.Atoi(name)
	if err == nil {
		return uid, true
	}
	u, err := passwd.Lookup(name)
	if err != nil {
		return 0, false
	}
	uid, err = strconv.Atoi(u.Uid)
	return uid, err == nil
}

// hasDay reports whether a day can have reports that match the query.
func (c choice) hasDay(day string) bool {
	begin, err := time.Parse(dayFormat, day)
	return err == nil && begin.Add(24*time.Hour).After(c.Since) && (c.Until.IsZero() || begin.Before(c.Until))
}

// inName returns a text that the names of all reports that the query can match contain. Most names
// of a node need no more than that.
func (c choice) inName() string {
	if c.Array == "" {
		return ""
	}
	number, _, _ := strings.Cut(c.Array, "[")
	return "." + number + "["
}

// has reports whether the query can match the report with that name.
func (c choice) has(n Name) bool {
	switch {
	case !c.May(n.UID):
	case c.Skip != nil && c.Skip(n):
	case c.Job != "" && !pbs.NamesJob(inName(c.Job), n.Job):
	case c.Array != "" && len(n.Job) < maxJob && !pbs.InArray(c.Array, n.Job):
	case c.named && n.UID >= 0 && n.UID != c.uid:
	case n.End.Before(c.Since):
	case !c.Until.IsZero() && !n.End.Before(c.Until):
	case !c.HasStates(strings.Split(n.States, "-")):
	default:
		return true
	}
	return false
}

// matches reports whether the query matches a report whose name already does. The name does not
// contain everything.
func (c choice) matches(n Name, text json.RawMessage) (bool, error) {
	byName := (c.Array == "" || len(n.Job) < maxJob) && (c.User == "" || c.named && n.UID >= 0)
	if c.Job == "" && c.Name == "" && c.Host == "" && byName {
		return true, nil
	}
	r, err := report.FromArchive(text)
	if err != nil {
		return false, err
	}
	return c.Matches(r), nil
}
