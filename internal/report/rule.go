package report

import (
	"slices"

	"github.com/hookhost/hookhost/internal/condition"
)

// Rule is advice of the site, for jobs whose figures meet a condition.
type Rule struct {
	When       condition.Condition
	Text, Link string
}

// Advise adds the advice of the site, after that which the report has.
func (r *Report) Advise(rules []Rule) {
	t := r.totals()
	cell := func(figure string) string {
		i := slices.IndexFunc(csvColumns, func(c csvColumn) bool { return c.name == figure })
		if i < 0 {
			return ""
		}
		return csvColumns[i].of(r, t)
	}
	for _, rule := range rules {
		if rule.When.Holds(cell) {
			a := Advice{Text: rule.Text, Link: rule.Link, Site: true}
			r.Advice, r.Notes = append(r.Advice, a), append(r.Notes, a.String())
		}
	}
}
