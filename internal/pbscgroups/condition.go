package pbscgroups

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/internal/config"
)

// condition is what a boolean depends on: true where all of the parts of one of its cases hold. No case is false, a case without parts is
// true. Lists of hosts and vntypes of several sections end up in one boolean of ours, so conditions are put together from both.
type condition [][]part

// part is one of the forms that a conditional boolean has in both configurations: "host not in: a,b*".
type part struct {
	subject  string // host or vntype
	not      bool
	patterns []string
}

var (
	always = condition{{}}
	never  = condition{}
)

func boolean(is bool) condition {
	if is {
		return always
	}
	return never
}

func (c condition) isAlways() bool { return len(c) == 1 && len(c[0]) == 0 }
func (c condition) isNever() bool  { return len(c) == 0 }

// where is true where one of the patterns, or with not none of them, matches.
func where(subject string, not bool, patterns []string) condition {
	switch {
	case len(patterns) > 0:
		return condition{{{subject, not, patterns}}}
	case not:
		return always
	}
	return never
}

func (c condition) and(d condition) condition {
	var both condition
	for _, one := range c {
		for _, other := range d {
			both = both.add(joined(one, other))
		}
	}
	return both
}

func (c condition) or(d condition) condition {
	var either condition
	for _, one := range slices.Concat(c, d) {
		either = either.add(one)
	}
	return either
}

// add adds a case, unless there is one that holds wherever it does; those that hold only where it does are dropped.
func (c condition) add(one []part) condition {
	implies := func(a, b []part) bool {
		return !slices.ContainsFunc(b, func(p part) bool { return !slices.ContainsFunc(a, p.within) })
	}
	if slices.ContainsFunc(c, func(other []part) bool { return implies(one, other) }) {
		return c
	}
	return append(slices.DeleteFunc(slices.Clone(c), func(other []part) bool { return implies(other, one) }), one)
}

// within tells whether p holds wherever q does, as far as can be told without knowing what patterns match.
func (p part) within(q part) bool {
	few, many := q.patterns, p.patterns // in: a holds wherever in: a,b does not fail
	if p.not {
		few, many = p.patterns, q.patterns
	}
	return p.subject == q.subject && p.not == q.not && !slices.ContainsFunc(few, func(s string) bool { return !slices.Contains(many, s) })
}

// joined returns the parts of two cases; what neither of two lists of one subject may have is one list.
func joined(a, b []part) []part {
	var parts []part
	for _, p := range slices.Concat(a, b) {
		if p.not {
			if i := slices.IndexFunc(parts, func(q part) bool { return q.not && q.subject == p.subject }); i >= 0 {
				parts[i].patterns = union(parts[i].patterns, p.patterns)
				continue
			}
		}
		if !slices.ContainsFunc(parts, func(q part) bool { return q.within(p) && p.within(q) }) {
			parts = append(parts, p)
		}
	}
	return parts
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// String returns the condition as a value of hookhost.toml.
func (c condition) String() string {
	if c.isAlways() || c.isNever() {
		return fmt.Sprint(c.isAlways())
	}
	cases := make([]string, len(c))
	for i, parts := range c {
		forms := make([]string, len(parts))
		for j, p := range parts {
			in := " in: "
			if p.not {
				in = " not in: "
			}
			forms[j] = p.subject + in + strings.Join(p.patterns, ",")
		}
		cases[i] = strings.Join(forms, " and ")
	}
	return quote(strings.Join(cases, " or "))
}

var errBoolean = errors.New(`want true, false, or a condition: "vntype in: LIST", "vntype not in: LIST", "host in: LIST" or "host not in: LIST"`)

// readCondition reads a boolean, or what stands for one (openpbs pbs_cgroups.PY, morph_config_dict_bools).
func readCondition(v value) (condition, error) {
	if v.kind == truth {
		return boolean(v.scalar == "true"), nil
	}
	head, tail, found := strings.Cut(strings.TrimSpace(v.scalar), ":")
	subject, form, _ := strings.Cut(strings.ToLower(strings.TrimSpace(head)), " ")
	if v.kind != text || !found || subject != "host" && subject != "vntype" || form != "in" && form != "not in" {
		return nil, errBoolean
	}
	var patterns []string
	for pattern := range strings.SplitSeq(tail, ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" { // matches no name
			continue
		}
		ours, err := readPattern(pattern)
		if err != nil {
			return nil, err
		}
		patterns = union(patterns, []string{ours})
	}
	return where(subject, form == "not in", patterns), nil
}

// readPatterns reads a list of patterns such as exclude_hosts. Those that match no name are left out and returned apart.
func readPatterns(v value) (patterns, dead []string, err error) {
	if v.kind != list {
		return nil, nil, errors.New("want a list of patterns")
	}
	for _, item := range v.items {
		if item.kind != text {
			return nil, nil, fmt.Errorf("%s: want a string", item)
		}
		// Unlike those of a condition, the stock hook takes these as they are.
		s := item.scalar
		if s == "" || strings.TrimSpace(s) != s {
			dead = append(dead, item.String())
			continue
		}
		s, outside, err := withoutCommas(s)
		if err != nil {
			return nil, nil, err
		}
		if outside {
			dead = append(dead, item.String())
			continue
		}
		ours, err := readPattern(s)
		if err != nil {
			return nil, nil, err
		}
		patterns = union(patterns, []string{ours})
	}
	return patterns, dead, nil
}

// readPattern returns a pattern of Python's fnmatch as ours has it: a [ without its ] stands for itself there.
func readPattern(pattern string) (string, error) {
	if strings.ContainsFunc(pattern, unicode.IsSpace) {
		return "", fmt.Errorf("pattern %q: a blank in it", pattern)
	}
	var b strings.Builder
	for rest := pattern; rest != ""; {
		size := 1
		if rest[0] == '[' {
			if size = setLength(rest); size == 0 {
				b.WriteString("[[]")
				rest = rest[1:]
				continue
			}
		}
		b.WriteString(rest[:size])
		rest = rest[size:]
	}
	ours := b.String()
	// Ours refuses sets that hold nothing or everything by mistake: [z-a].
	if _, err := config.Parse([]byte("host.enabled = "+quote("host in: "+ours)), config.Here{Host: "n"}); err != nil {
		return "", fmt.Errorf("pattern %q: not a shell pattern", pattern)
	}
	return ours, nil
}

// withoutCommas returns a pattern without the commas in its sets, which match in no name, and end a pattern in ours. It tells whether
// there is a comma outside of a set.
func withoutCommas(pattern string) (without string, outside bool, err error) {
	var b strings.Builder
	for rest := pattern; rest != ""; {
		size := 1
		if rest[0] == '[' {
			size = max(1, setLength(rest))
		}
		one := rest[:size]
		switch plain := strings.ReplaceAll(one, ",", ""); {
		case plain == one:
		case size == 1:
			outside = true
		case plain == "[]" || strings.HasPrefix(one, "[!") || strings.Contains(one, "-,") || strings.Contains(one, ",-"):
			return "", false, fmt.Errorf("pattern %q: a comma in it", pattern)
		default:
			one = plain
		}
		b.WriteString(one)
		rest = rest[size:]
	}
	return b.String(), outside, nil
}

// setLength returns how long the set is that a pattern begins with; 0 without its ].
func setLength(pattern string) int {
	from := 1
	if strings.HasPrefix(pattern[from:], "!") {
		from++
	}
	if strings.HasPrefix(pattern[from:], "]") { // a member
		from++
	}
	end := strings.IndexByte(pattern[from:], ']')
	if end < 0 {
		return 0
	}
	return from + end + 1
}
