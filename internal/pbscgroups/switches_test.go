package pbscgroups

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// The lists of a section follow its switch in the stock hook's order of evaluation.
func TestListsAndSwitchesBecomeOneCondition(t *testing.T) {
	for _, tt := range []struct{ text, host, memory string }{
		{`{}`, `false`, `false`},
		{`{"cgroup":{"memory":{"enabled":true}}}`, `true`, `true`},
		{`{"enabled":false,"cgroup":{"memory":{"enabled":true}}}`, `false`, `true`},
		{`{"exclude_hosts":["a"],"cgroup":{"memory":{"enabled":true,"exclude_hosts":["b"]},"cpuset":{"enabled":true}}}`,
			`"host not in: a"`, `"host not in: b"`},
		{`{"exclude_hosts":["a"],"cgroup":{"memory":{"enabled":true,"exclude_hosts":["b"]}}}`,
			`"host not in: a and host not in: b"`, `"host not in: b"`},
		{`{"exclude_vntypes":["x"],"exclude_hosts":["a"],"cgroup":{"memory":{"enabled":true}}}`,
			`"vntype not in: x and host not in: a"`, `true`},
		{`{"cgroup":{"memory":{"enabled":true,"exclude_hosts":["a"]},"cpuset":{"enabled":true,"exclude_hosts":["a","b"]}}}`, `"host not in: a,b or host not in: a"`, `"host not in: a"`},
		{`{"cgroup":{"memory":{"enabled":"host in: a"},"cpuset":{"enabled":"host in: b,a"},"pids":{"enabled":"vntype in: x"}}}`, `"host in: b,a or host in: a or vntype in: x"`, `"host in: a"`},
		{`{"cgroup":{"memory":{"include_hosts":["a"]}}}`, `"host in: a"`, `"host in: a"`},
		{`{"cgroup":{"memory":{"enabled":true,"exclude_hosts":["a*"],"include_hosts":["ab"],"run_only_on_hosts":["a?","b"]}}}`,
			`"host not in: a* and host in: a?,b or host in: ab and host in: a?,b"`,
			`"host not in: a* and host in: a?,b or host in: ab and host in: a?,b"`},
		{`{"include_hosts":["a"],"cgroup":{"memory":{"enabled":true}}}`, `true`, `true`},
		{`{"enabled":"  HOST In : n[0-9] ","cgroup":{"memory":{"enabled":"vntype not in: gr\u00f6\u00dfe, b*"}}}`,
			`"HOST In : n[0-9] and vntype not in: größe, b*"`, `"vntype not in: größe, b*"`},
		{`{"cgroup":{"cpuacct":{"enabled":true},"exclude_hosts":["a"]}}`, `true`, `false`},
	} {
		got, err := Read([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		for section, want := range map[string]string{"host": tt.host, "memory": tt.memory} {
			if _, rest, _ := strings.Cut(string(got.TOML), "\n["+section+"]\n"); !strings.HasPrefix(rest,
				"enabled = "+want+" #") && !strings.HasPrefix(rest, "enabled = "+want+"\n") {
				t.Errorf("%s: [%s] has not enabled = %s:\n%s", tt.text, section, want, got.TOML)
			}
		}
	}
}

// stockEnabled is what the stock hook makes of a section's keys, in its words (openpbs
// pbs_cgroups.PY, morph_config_dict_bools).
func stockEnabled(section map[string]any, enabled any, host, vntype string) bool {
	matches := func(name string, list any) bool {
		for _, pattern := range list.([]string) {
			if ok, _ := path.Match(pattern, name); ok {
				return true
			}
		}
		return false
	}
	if given, ok := section["enabled"]; ok {
		enabled = given
	}
	on, isBool := enabled.(bool)
	if text, isText := enabled.(string); isText {
		head, tail, _ := strings.Cut(text, ":")
		subject := map[string]string{"host": host, "vntype": vntype}[strings.Fields(head)[0]]
		on, isBool = matches(subject, strings.Split(strings.ReplaceAll(tail, " ", ""), ",")) != strings.Contains(head,
			" not "), true
	}
	if list, ok := section["exclude_vntypes"]; ok && on && matches(vntype, list) {
		on = false
	}
	if list, ok := section["exclude_hosts"]; ok && on && matches(host, list) {
		on = false
	}
	if list, ok := section["include_hosts"]; ok && len(list.([]string)) > 0 {
		on = on || matches(host, list)
	}
	if list, ok := section["run_only_on_hosts"]; ok && len(list.([]string)) > 0 {
		on = on && matches(host, list)
	}
	return on && (isBool || section["include_hosts"] != nil)
}

// The sections enabled on a host of a vntype are those that the stock hook has enabled there,
// whatever conditions and lists a file has.
func TestEnabledAsInTheStockHook(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	hostPattern := func() string { return pick("a", "b", "c", "a*", "?", "[ab]", "*", "z") }
	vntypePattern := func() string { return pick("x", "y", "x*", "[yz]", "__UNKNOWN__", "z") }
	several := func(pattern func() string) []string {
		list := make([]string, random.IntN(3))
		for i := range list {
			list[i] = pattern()
		}
		return list
	}
	section := func() map[string]any {
		s := map[string]any{}
		switch random.IntN(5) {
		case 0:
			s["enabled"] = true
		case 1:
			s["enabled"] = false
		case 2:
			s["enabled"] = fmt.Sprintf("%s: %s", pick("host in", "host not in"),
				strings.Join(append(several(hostPattern), "c"), ", "))
		case 3:
			s["enabled"] = fmt.Sprintf("%s: %s", pick("vntype in", "vntype not in"),
				strings.Join(append(several(vntypePattern), "y"), " ,"))
		}
		for _, name := range switches[1:] {
			if random.IntN(3) > 0 {
				continue
			}
			if name == "exclude_vntypes" {
				s[name] = several(vntypePattern)
			} else {
				s[name] = several(hostPattern)
			}
		}
		return s
	}
	for range 150 {
		file, cgroup, parts := section(), map[string]any{}, map[string]map[string]any{}
		top := map[string]any{}
		for k, v := range file {
			top[k] = v
		}
		for _, s := range sections {
			if random.IntN(3) == 0 {
				parts[s.name] = section()
				cgroup[s.name] = parts[s.name]
			}
		}
		top["cgroup"] = cgroup
		text, err := json.Marshal(top)
		must.NoError(t, err)
		got, err := Read(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, host := range []string{"a", "ab", "b", "c"} {
			for _, vntype := range []string{"", "x", "xx", "y"} {
				f, err := config.Parse(got.TOML, config.Here{Host: host, Vntype: vntype})
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				ours := map[string]bool{"cpu": f.CPU.Enabled, "cpuset": f.Cpuset.Enabled, "memory": f.Memory.Enabled,
					"memsw":   f.Memsw.Enabled,
					"hugetlb": f.Hugetlb.Enabled, "pids": f.Pids.Enabled, "blkio": f.Blkio.Enabled,
					"net_cls":  f.NetCls.Enabled,
					"net_prio": f.NetPrio.Enabled, "perf_event": f.PerfEvent.Enabled, "rdma": f.RDMA.Enabled,
					"devices": f.Devices.Enabled}
				known := vntype
				if known == "" {
					known = "__UNKNOWN__"
				}
				some := false
				for _, s := range sections {
					stock := stockEnabled(parts[s.name], false, host, known)
					some = some || stock
					if is, has := ours[s.name]; has && is != stock {
						t.Fatalf("%s\non %s of vntype %q: %s is %t, in the stock hook %t:\n%s", text, host, vntype,
							s.name, is, stock, got.TOML)
					}
				}
				if want := some && stockEnabled(file, true, host, known); f.Host.Enabled != want {
					t.Fatalf("%s\non %s of vntype %q: the host is %t, in the stock hook %t:\n%s", text, host, vntype,
						f.Host.Enabled, want, got.TOML)
				}
			}
		}
	}
}
