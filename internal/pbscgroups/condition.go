package pbscgroups

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/config"
)

// condition selects the hosts on which something is enabled: those for which one of its cases is
// true. Each case is a condition of hookhost.toml without "or". Without cases it is false; the case
// "" is always true.
type condition []string

func (c condition) and(d condition) condition {
	var both condition
	for _, one := range c {
		for _, other := range d {
			if one != "" && other != "" && one != other {
				both = append(both, one+" and "+other)
			} else {
				both = append(both, max(one, other))
			}
		}
	}
	return both
}

// or returns the cases of both, each once.
func (c condition) or(d condition) condition {
	either := slices.Clone(c)
	for _, one := range d {
		if !slices.Contains(either, one) {
			either = append(either, one)
		}
	}
	if slices.Contains(either, "") {
		return condition{""}
	}
	return either
}

// String formats the condition as a value of hookhost.toml.
func (c condition) String() string {
	switch {
	case len(c) == 0:
		return "false"
	case slices.Contains(c, ""):
		return "true"
	}
	return quote(strings.Join(c, " or "))
}

// where returns the condition that one of the patterns matches. subject is "host in" or similar.
func where(subject string, patterns any) condition {
	var all []string
	for _, p := range patterns.([]any) {
		all = append(all, p.(string))
	}
	return condition{subject + ": " + strings.Join(all, ",")}
}

// conditionForm matches a condition of the stock hook, which has no "and" (openpbs pbs_cgroups.PY,
// morph_config_dict_bools).
var conditionForm = regexp.MustCompile(`(?i)^ *(host|vntype) (not )?in *:[^:]*$`)

// isCondition fails for a value that is neither a boolean nor a condition. Ours have the same
// syntax.
func isCondition(v any) error {
	text, isText := v.(string)
	if _, isBool := v.(bool); isBool {
		return nil
	}
	if !isText || !conditionForm.MatchString(text) {
		return errors.New(`want true, false, or a condition: ` +
			`"vntype in: LIST", "vntype not in: LIST", "host in: LIST" or "host not in: LIST"`)
	}
	return config.CheckCondition(text)
}

// conditionOf returns a value as a condition.
func conditionOf(v any) condition {
	switch v := v.(type) {
	case bool:
		if v {
			return condition{""}
		}
	case string:
		return condition{strings.TrimSpace(v)}
	}
	return nil
}

// arePatterns fails unless the value is a list of patterns, as for exclude_hosts.
func arePatterns(v any) error {
	items, isList := v.([]any)
	if !isList {
		return errors.New("want a list of patterns")
	}
	for _, item := range items {
		text, isText := item.(string)
		if !isText || text == "" || strings.ContainsAny(text, ", \t\n") {
			return fmt.Errorf("%s: want one pattern in each string, without a comma or a blank", quote(item))
		}
		if err := config.CheckCondition("host in: " + text); err != nil {
			return err
		}
	}
	return nil
}

// enable decides which sections are enabled on which hosts. The switch at the top (enabled) turns
// off all sections. The stock hook does nothing on hosts where no controller is enabled (openpbs
// pbs_cgroups.PY, main).
func (i *importer) enable() {
	var some condition
	for _, s := range sections {
		name := "cgroup." + s.name
		c := i.section(name, nil)
		some = some.or(c)
		if s.ours == "" {
			continue
		}
		_, given := i.given[name+".enabled"]
		if !given && len(c) == 0 && isDefault(setting{s.ours + ".enabled", "false"}) {
			continue
		}
		if !given {
			k := Key{Key: name + ".enabled", Value: "false", Became: Ours, Why: s.note}
			i.rows = append(i.rows, row{k, []string{s.ours + ".enabled"}})
			i.from[s.ours+".enabled"] = []string{"default of " + k.Key}
		}
		i.enableBy(s.ours+".enabled", c, name)
		if s.on != nil && len(c) > 0 {
			i.set(name+".enabled", *s.on)
		}
	}
	i.enableBy("host.enabled", i.section("", true).and(some), "")
}

// section returns where a section is enabled. on is the default of its switch. The section's own
// keys decide, in a fixed order regardless of the file (morph_config_dict_bools).
func (i *importer) section(name string, on any) condition {
	given := func(key string) (v any, there bool) {
		v, there = i.given[join(name, key)]
		list, isList := v.([]any)
		return v, there && (!isList || len(list) > 0)
	}
	if v, there := given("enabled"); there {
		on = v
	}
	c := conditionOf(on)
	if v, there := given("exclude_vntypes"); there {
		c = c.and(where("vntype not in", v))
	}
	if v, there := given("exclude_hosts"); there {
		c = c.and(where("host not in", v))
	}
	if v, there := given("include_hosts"); there {
		c = c.or(where("host in", v))
	}
	if v, there := given("run_only_on_hosts"); there {
		c = c.and(where("host in", v))
	}
	return c
}

// enableBy sets a switch of ours that results from the keys of a section.
func (i *importer) enableBy(ours string, c condition, section string) {
	i.values[ours] = c.String()
	for _, k := range switches {
		v, given := i.given[join(section, k)]
		if list, isList := v.([]any); given && (!isList || len(list) > 0) {
			i.from[ours] = append(i.from[ours], join(section, k))
		}
	}
}
