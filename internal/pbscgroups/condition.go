package pbscgroups

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/internal/config"
)

// condition is the value of a boolean: true where one of its cases holds, each a condition of
// hookhost.toml without "or". No case is false; the case "" always holds.
type condition []string

var (
	always = condition{""}
	never  = condition{}
)

func boolean(is bool) condition {
	if is {
		return always
	}
	return never
}

func (c condition) isAlways() bool { return slices.Contains(c, "") }
func (c condition) isNever() bool  { return len(c) == 0 }

// where is true where one of the patterns matches; with not, where none of them does.
func where(subject string, not bool, patterns []string) condition {
	switch {
	case len(patterns) > 0 && not:
		return condition{subject + " not in: " + strings.Join(patterns, ",")}
	case len(patterns) > 0:
		return condition{subject + " in: " + strings.Join(patterns, ",")}
	}
	return boolean(not)
}

func (c condition) and(d condition) condition {
	var both condition
	for _, one := range c {
		for _, other := range d {
			switch {
			case one == "":
				both = append(both, other)
			case other == "" || one == other:
				both = append(both, one)
			default:
				both = append(both, one+" and "+other)
			}
		}
	}
	return both
}

// or has each case once.
func (c condition) or(d condition) condition {
	if c.isAlways() || d.isAlways() {
		return always
	}
	either := slices.Clone(c)
	for _, one := range d {
		if !slices.Contains(either, one) {
			either = append(either, one)
		}
	}
	return either
}

// String returns the condition as a value of hookhost.toml.
func (c condition) String() string {
	if c.isAlways() || c.isNever() {
		return strconv.FormatBool(c.isAlways())
	}
	return quote(strings.Join(c, " or "))
}

var errBoolean = errors.New(`want true, false, or a condition: ` +
	`"vntype in: LIST", "vntype not in: LIST", "host in: LIST" or "host not in: LIST"`)

// readCondition reads a boolean, or what stands for one (openpbs pbs_cgroups.PY,
// morph_config_dict_bools).
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
		patterns = append(patterns, ours)
	}
	return where(subject, form == "not in", patterns), nil
}

// readPatterns reads a list of patterns such as exclude_hosts. Patterns that match no name are left
// out and returned apart.
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
		patterns = append(patterns, ours)
	}
	return patterns, dead, nil
}

// readPattern returns a pattern of Python's fnmatch as ours has it: a [ without its ] stands for
// itself there.
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

// withoutCommas returns a pattern without the commas in its sets: they match in no name, and end a
// pattern in ours. outside is set for a comma outside of a set.
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
		case plain == "[]" || strings.HasPrefix(one, "[!") || strings.Contains(one, "-,") ||
			strings.Contains(one, ",-"):
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
