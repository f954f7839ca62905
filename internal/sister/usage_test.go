package sister

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

// A report of another host counts for that host alone. A host that has none, or is not reached,
// says why.
func TestUsageIsThatOfTheHostWhichTold(t *testing.T) {
	theirs, ours := identities(t, []string{"n2", "n3", "n4"})
	reports := func(text string, err error) farHost {
		return farHost{report: func(string) (json.RawMessage, error) { return json.RawMessage(text), err }}
	}
	f := fleet(t, ours, config.Sister{Width: 4, Hosts: map[string]string{
		"n2": serveHost(t, "n2", theirs, reports(
			`{"job":"1.n1","hosts":{"n1":{"ncpus":9},"n2":{"ncpus":2,"cput_seconds":1.5}}}`, nil)),
		"n3": serveHost(t, "n3", theirs, reports(`{"job":"1.n1"}`, nil)),
		"n4": serveHost(t, "n4", theirs, reports("", api.ErrNotFound)),
		"n9": nobody(t),
	}})
	told := f.Usage(t.Context(), "1.n1", []string{"n2", "n3", "n4", "n9"})
	if u := told["n2"]; u.Err != nil || u.Usage.NCPUs != 2 || *u.Usage.CPUTSeconds != 1.5 {
		t.Errorf("n2: %+v", u)
	}
	if u := told["n3"]; u.Err != nil || u.Usage != nil {
		t.Errorf("n3: %+v", u)
	}
	for name, want := range map[string]string{"n4": "n4: job 1.n1: not found", "n9": "n9: call host: connect to"} {
		text := fmt.Sprint(told[name].Err)
		if !strings.HasPrefix(text, want) || strings.Contains(text, "may have been") {
			t.Errorf("%s: %+v", name, told[name])
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if u := f.Usage(over, "1.n1", []string{"n2"})["n2"]; u.Err == nil {
		t.Errorf("not called: %+v", u)
	}
}
