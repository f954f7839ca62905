package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/condition"
	"github.com/hookhost/hookhost/internal/must"
)

func TestFiguresOfConditionsAreColumns(t *testing.T) {
	want := slices.DeleteFunc(ColumnNames(), func(name string) bool {
		return slices.Contains([]string{"start", "end", "notes"}, name)
	})
	must.Equal(t, "figures", slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(condition.Figures)))
}

func TestSiteAdvisesWhereItsConditionHolds(t *testing.T) {
	rule := func(when, text, link string) Rule {
		c, err := condition.Parse(when)
		must.NoError(t, err)
		return Rule{c, text, link}
	}
	r := charted(t, "idle")
	had := len(r.Notes)
	r.Advise([]Rule{
		rule("cpu_efficiency < 1% and queue == workq", "Ask for less.", "https://hpc.example/idle"),
		rule("mem_bytes > 1gb", "Not this one.", ""),
		rule("gpu_utilization_percent < 20", "Nor this one: it has no GPU.", ""),
	})
	must.Equal(t, "last advice", Advice{Text: "Ask for less.", Link: "https://hpc.example/idle", Site: true},
		r.Advice[len(r.Advice)-1])
	must.Equal(t, "notes", []string{"Ask for less. https://hpc.example/idle"}, r.Notes[had:])
	text, document := textOf(t, r), htmlOf(t, r)
	if want := "          Ask for less. https://hpc.example/idle\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in:\n%s", want, text)
	}
	if !strings.Contains(document, `Ask for less. <a href="https://hpc.example/idle">`) {
		t.Errorf("no link in:\n%s", document)
	}
	r.Advice = []Advice{{Text: "x", Link: "javascript:alert(1)"}}
	if document := htmlOf(t, r); strings.Contains(document, `href="javascript`) {
		t.Errorf("a program as link:\n%s", document)
	}
}
