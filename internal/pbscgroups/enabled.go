package pbscgroups

import "strings"

// enable decides what is enabled where. In the stock hook a section is enabled by its own keys, in
// one order whatever the order of the file. The order is: the switch, and not exclude_vntypes, and
// not exclude_hosts, or include_hosts, and run_only_on_hosts (openpbs pbs_cgroups.PY,
// morph_config_dict_bools). The switch at the top (enabled) turns all sections off. The hook takes
// no part in anything where no controller is enabled (main).
func (i *importer) enable() error {
	top, err := i.section("", true)
	if err != nil {
		return err
	}
	some := never
	for _, s := range sections {
		name := join("cgroup", s.name)
		own, err := i.section(name, false)
		if err != nil {
			return err
		}
		some = some.or(own)
		if s.ours == "" {
			continue
		}
		_, given := i.given[join(name, "enabled")]
		if !given && own.isNever() && isDefault(setting{s.ours + ".enabled", "false"}) {
			continue
		}
		i.switchTo(s.ours+".enabled", own, name)
		if s.on != nil && !own.isNever() {
			i.set(*s.on, join(name, "enabled"))
		}
		if !given {
			k := Key{Key: join(name, "enabled"), Value: "false", Became: Ours, Why: s.note}
			i.rows = append(i.rows, row{k, []string{s.ours + ".enabled"}})
			i.from[s.ours+".enabled"] = append([]string{"default of " + join(name, "enabled")},
				i.from[s.ours+".enabled"]...)
		}
	}
	i.switchTo("host.enabled", top.and(some), "")
	return nil
}

// section returns where a section is enabled; on is what its switch is by default.
func (i *importer) section(name string, on bool) (condition, error) {
	c := boolean(on)
	if v, given := i.given[join(name, "enabled")]; given {
		var err error
		if c, err = readCondition(v); err != nil {
			return nil, wrong(join(name, "enabled"), v, err)
		}
	}
	for _, list := range []struct {
		key   string
		apply func(patterns []string) condition
	}{
		{"exclude_vntypes", func(p []string) condition { return c.and(where("vntype", true, p)) }},
		{"exclude_hosts", func(p []string) condition { return c.and(where("host", true, p)) }},
		{"include_hosts", func(p []string) condition { return c.or(where("host", false, p)) }},
		{"run_only_on_hosts", func(p []string) condition { return c.and(where("host", false, p)) }},
	} {
		full := join(name, list.key)
		v, given := i.given[full]
		if !given {
			continue
		}
		patterns, dead, err := readPatterns(v)
		switch {
		case err != nil:
			return nil, wrong(full, v, err)
		case len(v.items) == 0:
			i.amend(full, NotNeeded, "it is empty")
			continue
		case len(dead) > 0:
			i.amend(full, Refused, strings.Join(dead, ", ")+
				": matches nothing, in the stock hook neither: one pattern in each string")
		}
		c = list.apply(patterns)
	}
	return c, nil
}

// amend changes what became of a key of ours.
func (i *importer) amend(name string, became Became, why string) {
	for at := range i.rows {
		if r := &i.rows[at]; r.Key.Key == name {
			r.Became, r.Why = became, why
			if became == NotNeeded {
				r.ours = nil
			}
		}
	}
}

// switchTo sets a switch of ours that comes of a section.
func (i *importer) switchTo(ours string, c condition, section string) {
	i.values[ours] = c.String()
	for name := range strings.FieldsSeq("enabled " + patternLists) {
		if v, given := i.given[join(section, name)]; given && (v.kind != list || len(v.items) > 0) {
			i.from[ours] = append(i.from[ours], join(section, name))
		}
	}
}
