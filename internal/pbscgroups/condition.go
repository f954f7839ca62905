package pbscgroups

import (
	"errors"
	"fmt"
	"regexp"
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
		if err := checkPattern(pattern); err != nil {
			return nil, err
		}
		patterns = append(patterns, pattern)
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
		s := withoutCommas(item.scalar)
		outside := strings.Contains(s, ",") && !strings.Contains(s, "[")
		if s == "" || strings.TrimSpace(s) != s || outside {
			dead = append(dead, item.String())
			continue
		}
		if err := checkPattern(s); err != nil {
			return nil, nil, err
		}
		patterns = append(patterns, s)
	}
	return patterns, dead, nil
}

// checkPattern fails for a pattern of Python's fnmatch that ours refuses, or reads as several. Such
// a pattern has a comma, a blank, a [ without its ] or a set such as [z-a].
func checkPattern(pattern string) error {
	if strings.ContainsFunc(pattern, unicode.IsSpace) || strings.Contains(pattern, ",") {
		return fmt.Errorf("pattern %q: a blank or a comma in it", pattern)
	}
	if err := config.CheckCondition("host in: " + pattern); err != nil {
		return fmt.Errorf("pattern %q: not a shell pattern", pattern)
	}
	return nil
}

var patternSet = regexp.MustCompile(`\[[^]!][^]]*\]`)

// withoutCommas returns a pattern without the commas in its sets. They match in no name, and end a
// pattern in ours. A set in which a comma means something else stays.
func withoutCommas(pattern string) string {
	return patternSet.ReplaceAllStringFunc(pattern, func(set string) string {
		if strings.Contains(set, "-,") || strings.Contains(set, ",-") {
			return set
		}
		return strings.ReplaceAll(set, ",", "")
	})
}
