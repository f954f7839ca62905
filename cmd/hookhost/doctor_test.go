package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hookhost/hookhost/internal/doctor"
	"github.com/hookhost/hookhost/internal/must"
)

// The text fits a terminal of 100 columns, whatever was found.
func TestFindingsFitATerminal(t *testing.T) {
	var b bytes.Buffer
	long := strings.Repeat("some words and /a/path/of/some/length, ", 12)
	err := writeFindings(&b, []doctor.Finding{
		{What: "cgroups", Status: doctor.OK, Found: "v2"},
		{What: "memory controller", Status: doctor.Impossible, Found: long, Advice: long},
		{What: "hook " + strings.Repeat("x", 30), Status: doctor.Degraded, Found: "not enabled", Advice: "do"},
	})
	must.NoError(t, err)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 || strings.HasSuffix(line, " \n") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	text := b.String()
	if strings.Count(text, "→") != 2 || strings.Contains(text, "\x1b") {
		t.Errorf("%s", text)
	}
	const summary = "3 checks: 1 impossible, 1 degraded, 1 ok.\n\n"
	if !strings.HasPrefix(text, summary+"impossible memory controller      some") ||
		!strings.HasSuffix(text, "\n\nok         cgroups                v2\n") {
		t.Errorf("problems do not come first:\n%s", text)
	}
}
