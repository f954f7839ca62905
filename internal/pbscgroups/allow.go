package pbscgroups

import (
	"fmt"
	"strings"
)

// allow reads devices.allow (openpbs pbs_cgroups.PY, setup_job_devices_env and the loop over
// cgroup.devices.allow). Entries that cannot be ours are left out, and the rest is taken.
func allow(v value) (outcome, error) {
	if v.kind != list {
		return outcome{}, fmt.Errorf("want a list of entries")
	}
	var kept, refused []string
	for _, entry := range v.items {
		ours, why := allowEntry(entry)
		if why == "" {
			why = outcomeOf(setting{"devices.allow", "[" + ours + "]"}).why
		}
		if why != "" {
			refused = append(refused, fmt.Sprintf("%s: %s", entry, why))
			continue
		}
		kept = append(kept, ours)
	}
	o := outcomeOf(setting{"devices.allow", "[" + strings.Join(kept, ", ") + "]"})
	if len(refused) > 0 {
		o.became, o.why = Refused, "left out: "+strings.Join(refused, "; ")
	}
	return o, nil
}

// allowEntry returns an entry as hookhost.toml has it, or why there is none.
func allowEntry(entry value) (ours, why string) {
	switch {
	case entry.kind == text:
		if strings.HasPrefix(entry.scalar, "a") { // the kernel looks no further (device_cgroup.c)
			return quote("a *:* rwm"), ""
		}
		return quote(strings.Join(strings.Fields(entry.scalar), " ")), ""
	case entry.kind != list:
		return "", "neither a string nor a list: the stock hook leaves it out, too"
	case len(entry.items) < 2 || entry.items[0].kind != text || entry.items[1].kind != text:
		return "", "want a name in /dev and an access"
	}
	name := entry.items[0].scalar
	if strings.ContainsAny(name, `*?[\`) {
		return "", "a name with one of *?[\\ is a pattern in hookhost, and in the stock hook a device that is not there"
	}
	parts := []string{quote(name), quote(entry.items[1].scalar)}
	if len(entry.items) == 3 && entry.items[2].kind == text { // what is anything else the stock hook does not look at
		parts = append(parts, quote(entry.items[2].scalar))
	}
	return "[" + strings.Join(parts, ", ") + "]", ""
}
