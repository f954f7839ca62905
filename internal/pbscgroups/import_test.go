package pbscgroups

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files and the table in docs/openpbs-migration.md")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		must.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must.NoError(t, err)
	must.Equal(t, path, string(want), string(got))
}

// The file that OpenPBS ships, one with every key, and one with none.
func TestImportOfWholeFiles(t *testing.T) {
	for _, name := range []string{"shipped", "every", "empty"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			must.NoError(t, err)
			got, err := Read(text)
			must.NoError(t, err)
			keys, err := json.MarshalIndent(got.Keys, "", " ")
			must.NoError(t, err)
			golden(t, filepath.Join("testdata", name+".toml.golden"), got.TOML)
			golden(t, filepath.Join("testdata", name+".keys.golden"), append(keys, '\n'))
		})
	}
}

// The example that says every key does.
func TestEveryKeyIsInTheExample(t *testing.T) {
	text, err := os.ReadFile("testdata/every.json")
	must.NoError(t, err)
	got, err := Read(text)
	must.NoError(t, err)
	for _, k := range keys {
		if !slices.ContainsFunc(got.Keys, func(r Key) bool { return r.Key == k.name && r.Line > 0 }) {
			t.Errorf("%s is not in testdata/every.json", k.name)
		}
	}
}

// Each key of a file has one row, and what a row says of hookhost.toml is in it.
func checkRows(t *testing.T, text []byte, got *Import) {
	t.Helper()
	f, err := config.Parse(got.TOML, config.Here{Host: "n1", Vntype: "x"})
	if err != nil {
		t.Fatalf("%q became\n%s\n%v", text, got.TOML, err)
	}
	if f.Host.Enabled && !slices.ContainsFunc(got.Keys,
		func(k Key) bool { return strings.HasSuffix(k.Key, "enabled") || strings.HasSuffix(k.Key, "hosts") }) {
		t.Errorf("%q: enabled, and no key says so", text)
	}
	seen := map[string]bool{}
	for _, k := range got.Keys {
		if seen[k.Key] {
			t.Errorf("%q: %s has two rows", text, k.Key)
		}
		seen[k.Key] = true
		if k.Became == Ours && len(k.Ours) == 0 || (k.Became == Refused || k.Became == Unknown) && k.Why == "" {
			t.Errorf("%q: %+v says nothing", text, k)
		}
		for _, line := range k.Ours {
			section, rest, _ := strings.Cut(line, ".")
			at := strings.Index(string(got.TOML), "\n["+section+"]\n")
			if at < 0 || !strings.Contains(string(got.TOML[at:]), "\n"+rest+" # ") {
				t.Errorf("%q: %s: %s is not in\n%s", text, k.Key, line, got.TOML)
			}
		}
	}
}

func TestImportOfValues(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"cgroup":{"memory":{"default":"0"}}}`, `memory.default = "0b"`},
		{`{"cgroup":{"memory":{"default":"1025"}}}`, `memory.default = "1025b"`},
		{`{"cgroup":{"memory":{"default":2048}}}`, `memory.default = "2048b"`},
		{`{"cgroup":{"memory":{"default":"+3M"}}}`, `memory.default = "3mb"`},
		{`{"cgroup":{"memory":{"default":"3mib"}}}`, `memory.default = "3mb"`},
		{`{"cgroup":{"memory":{"default":"7E"}}}`, `refused: memory.default: size 7eb: not a size`},
		{`{"cgroup":{"memory":{"default":"8192p"}}}`, `refused: memory.default: size 8192pb: too large`},
		{`{"cgroup":{"memory":{"default":"99999999999999999999"}}}`, `refused: memory.default: size 99999999999999999999b: too large`},
		{`{"cgroup":{"memory":{"reserve_percent":2.9}}}`, `memory.reserve_percent = 2`},
		{`{"cgroup":{"memory":{"reserve_percent":" 7 "}}}`, `memory.reserve_percent = 7`},
		{`{"cgroup":{"memory":{"reserve_percent":100}}}`,
			`refused: memory.reserve_percent = 100: want a percentage from 0 to below 100`},
		{`{"cgroup":{"memory":{"reserve_percent":1e300}}}`,
			`refused: memory.reserve_percent = 1e+300: want a percentage from 0 to below 100`},
		{`{"cgroup":{"memory":{"swappiness":101}}}`, `refused: memory.swappiness = 101: want -1 to 100`},
		{`{"cgroup":{"memory":{"vnode_hidden_mb":0.25}}}`, `memory.vnode_hidden = "262144b"`},
		{`{"cgroup":{"memory":{"vnode_hidden_mb":-1}}}`, `refused: memory.vnode_hidden: size -1mb: not a size`},
		{`{"cgroup":{"cpu":{"cfs_period_us":1000}}}`, `cpu.cfs_period = "1000us"`},
		{`{"cgroup":{"cpu":{"cfs_period_us":999}}}`, "refused: cpu.cfs_period = 999µs: want 1ms to 1s"},
		{`{"cgroup":{"cpu":{"cfs_quota_fudge_factor":1}}}`, `cpu.cfs_quota_fudge_factor = 1.0`},
		{`{"cgroup":{"cpu":{"zero_cpus_shares_fraction":0}}}`, `cpu.zero_cpus_shares_fraction = 0.002`},
		{`{"cgroup":{"cpu":{"zero_cpus_quota_fraction":0}}}`,
			`refused: cpu.zero_cpus_quota_fraction = 0: want more than 0, and 1000 at most`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":"0-3, 8"}}}`, `cpuset.exclude_cpus = "0-3,8"`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":[1,"4-5,7",3]}}}`, `cpuset.exclude_cpus = "1,4-5,7,3"`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":"3-1"}}}`,
			`refused: cpuset.exclude_cpus = "3-1": want a list such as 0,8-9`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":" "}}}`, `cpuset.exclude_cpus = ""`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":[2147483647]}}}`,
			`refused: cpuset.exclude_cpus = "2147483647": want a list such as 0,8-9`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":["a"]}}}`,
			`refused: cpuset.exclude_cpus = "a": want a list such as 0,8-9`},
		{`{"kill_timeout":0}`, `refused: cgroup.kill_timeout = 0s: want 100ms to 50s`},
		{`{"kill_timeout":60}`, `refused: cgroup.kill_timeout = 1m0s: want 100ms to 50s`},
		{`{"kill_timeout":1e12}`, `refused: cgroup.kill_timeout: "1000000000000s" is not a duration`},
		{`{"online_nodes_min_delay":"1.5"}`, `vnodes.online_nodes_min_delay = "1.5s"`},
		{`{"online_nodes_min_delay":-1}`, `refused: vnodes.online_nodes_min_delay: "-1s" is not a duration`},
		{`{"cgroup_prefix":"a/b"}`, `refused: cgroup.prefix = "a/b": want a plain name such as pbs_jobs`},
		{`{"placement_type":"load_packed"}`, `cpuset.placement = "pack"`},
		{`{"placement_type":"load_balanced"}`, `cpuset.placement = "spread"`},
		{`{"placement_type":""}`, `cpuset.placement = "pack"`},
		{`{"nvidia-smi":""}`, `devices.discover_gpus = false`},
		{`{"discover_gpus":true,"nvidia-smi":""}`, `devices.discover_gpus = false`},
		{`{"nvidia-smi":"","discover_gpus":true}`, `devices.discover_gpus = false`},
		{`{"nvidia-smi":"/x"}`, `not needed`},
		{`{"cgroup":{"blkio":{"mount_path":"/sys/fs/cgroup/blkio"}}}`, `not needed`},
		{`{"cgroup":{"cpuset":{"mount_path":"/dev/cpuset"}}}`,
			`refused: hookhost looks for all controllers below one directory`},
		{`{"cgroup":{"blkio":{"enabled":false}}}`, `blkio.enabled = false`},
		{`{"cgroup":{"net_cls":{"enabled":"host in: a"}}}`, `net_cls.enabled = "host in: a"`},
		{`{"cgroup":{"memory":{"soft_limit":"vntype in: a"}}}`, `memory.soft_limit = "vntype in: a"`},
		{`{"cgroup":{"cpuset":{"mem_hardwall":"host not in: a"}}}`, `cpuset.mem_hardwall = "host not in: a"`},
		{`{"cgroup":{"memsw":{"manage_cgswap":true}}}`, `memsw.manage_cgswap = true`},
		{`{"cgroup":{"devices":{"allow":["a"]}}}`, `devices.allow = ["a *:* rwm"]`},
		{`{"cgroup":{"devices":{"allow":[["tty0","rw",7],["full","rw","*",1]]}}}`,
			`devices.allow = [["tty0","rw"], ["full","rw"]]`},
		{`{"cgroup":{"devices":{"allow":[["../etc","rw"]]}}}`,
			`refused: left out: ["../etc","rw"]: devices.allow: ["../etc", "rw"]: name "../etc": want one below /dev`},
		{`{"cgroup":{"devices":{"allow":["c 1:3 rwx"]}}}`,
			`refused: left out: "c 1:3 rwx": devices.allow: "c 1:3 rwx": access "rwx"`},
		{`{"cgroups":{}}`, `unknown: the stock hook does not know it either`},
		{`{"cgroup":{"x\ny":1}}`, `unknown: the stock hook does not know it either`},
		{`{"cgroup":{"memory":{"Default":"1gb"}}}`, `unknown: the stock hook does not know it either`},
	} {
		got, err := Read([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		checkRows(t, []byte(tt.text), got)
		k := got.Keys[0]
		became := string(k.Became)
		switch {
		case k.Became == Ours:
			became = strings.Join(k.Ours, ", ")
		case k.Became != NotNeeded:
			became += ": " + k.Why
		}
		if !strings.HasPrefix(became, tt.want) {
			t.Errorf("%s became %s, want %s", tt.text, became, tt.want)
		}
		if k.Became == Refused && !strings.Contains(string(got.TOML), "\n# Refused: line 1: "+k.Key+" = ") {
			t.Errorf("%s: no comment says that it is refused:\n%s", tt.text, got.TOML)
		}
	}
}

func TestReadNamesTheLineOfAnError(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "unexpected end of JSON input"},
		{"{\n\n\"a\": 1,\n}", "line 4: invalid character '}'"},
		{"{} {}", "line 1: invalid character '{' after top-level value"},
		{"[]", "line 1: want an object"},
		{"\xff{}", "not UTF-8"},
		{"\xef\xbb\xbf{}", "line 1: invalid character"},
		{"{\n\"enabled\": true,\n\"enabled\": false}", "line 3: enabled: given twice"},
		{`{"cgroup":{"memory":{"default":"1","default":"2"}}}`,
			"line 1: cgroup.memory.default: given twice"},
		{"{\"cgroup\":{\n\"memory\":{},\n\"memory\":{}}}", "line 3: cgroup.memory: given twice"},
		{`{"cgroup":[]}`, "line 1: cgroup: want an object"},
		{`{"cgroup":{"memory":true}}`, "line 1: cgroup.memory: want an object"},
		{"{\n\"enabled\": 1}", "line 2: enabled = 1: want true, false, or a condition"},
		{`{"enabled": "yes"}`, `line 1: enabled = "yes": want true, false, or a condition`},
		{`{"enabled": "vntype  in: a"}`, `want true, false, or a condition`},
		{`{"enabled": "vntype in a"}`, `want true, false, or a condition`},
		{`{"cgroup":{"cpuset":{"mem_fences":"users in: a"}}}`,
			`line 1: cgroup.cpuset.mem_fences = "users in: a": want true, false, or a condition`},
		{`{"cgroup":{"cpuset":{"enabled":"host in: [z-a]"}}}`, `pattern "[z-a]": not a shell pattern`},
		{`{"cgroup":{"cpuset":{"enabled":"host in: a and host in: b"}}}`, `want true, false, or a condition`},
		{`{"exclude_hosts": "n1"}`, `line 1: exclude_hosts = "n1": want a list of patterns`},
		{`{"exclude_hosts": [1]}`, `line 1: exclude_hosts = [1]: 1: want one pattern in each string`},
		{`{"enabled":"host in: n[1,2]"}`, `pattern "n[1": not a shell pattern`},
		{`{"exclude_hosts": ["n1,n2"]}`, `"n1,n2": want one pattern in each string, without a comma`},
		{`{"exclude_hosts": [" n1"]}`, `" n1": want one pattern in each string, without a comma or a blank`},
		{`{"exclude_hosts": ["n1", ""]}`, `"": want one pattern in each string`},
		{`{"exclude_hosts": ["n["]}`, `pattern "n[": not a shell pattern`},
		{`{"enabled":"host in:"}`, `empty pattern`},
		{`{"exclude_hosts": null}`, `line 1: exclude_hosts = null: want a list of patterns`},
		{`{"cgroup":{"net_cls":{"exclude_hosts": "n1"}}}`,
			`line 1: cgroup.net_cls.exclude_hosts = "n1": want a list of patterns`},
		{`{"cgroup":{"net_cls":{"enabled": 0}}}`, `line 1: cgroup.net_cls.enabled = 0: want true`},
		{`{"cgroup":{"cpuacct":{"enabled": 0}}}`, `line 1: cgroup.cpuacct.enabled = 0: want true`},
		{`{"cgroup":{"memory":{"default":"1.5GB"}}}`,
			`line 1: cgroup.memory.default = "1.5GB": want a size such as "256MB"`},
		{`{"cgroup":{"memory":{"default":"-1"}}}`, `want a size`},
		{`{"cgroup":{"memory":{"default":""}}}`, `want a size`},
		{`{"cgroup":{"memory":{"default":1.5}}}`, `want a size`},
		{`{"cgroup":{"memory":{"default":true}}}`, `want a size`},
		{`{"cgroup":{"memory":{"default":["1gb"]}}}`, `want a size`},
		{`{"cgroup":{"memory":{"reserve_percent":"3%"}}}`, `want a number`},
		{`{"cgroup":{"memory":{"reserve_percent":1e999}}}`, `want a number`},
		{`{"cgroup":{"memory":{"swappiness":null}}}`, `line 1: cgroup.memory.swappiness = null: want a number`},
		{`{"kill_timeout":"10"}`, `line 1: kill_timeout = "10": want a number`},
		{`{"server_timeout":"10"}`, `want a number`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":[["1"]]}}}`, `want a list of cpus`},
		{`{"cgroup":{"cpuset":{"exclude_cpus":3}}}`, `want a list of cpus`},
		{`{"cgroup":{"devices":{"allow":"c *:* rwm"}}}`,
			`line 1: cgroup.devices.allow = "c *:* rwm": want a list of entries`},
		{`{"cgroup_prefix":1}`, `line 1: cgroup_prefix = 1: want a string`},
		{`{"placement_type":false}`, `want a string`},
		{`{"nvidia-smi":[]}`, `want a string`},
		{`{"cgroup":{"cpu":{"mount_path":false}}}`, `want a string`},
	} {
		got, err := Read([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %+v, error %v, want one line with %q", tt.text, got, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"shipped", "every", "empty"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		must.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{`{"enabled":"host in: [!a-b]*,\u007f\u2028,[","exclude_hosts":["[,","[a,]"],"x\u0000":{"y":[1e999]}}`, `{"cgroup":{"cpuset":{"exclude_cpus":["9-1"]}}}`,
		`{"cgroup":{"memory":{"enabled":"vntype not in:a","include_hosts":["b"],"default":"9223372036854775807"},"blkio":{"enabled":"host in:\ud800"}}}`,
		`{"cgroup":{"devices":{"allow":["a","c 1:* r",["x","m","*"],[],{}]}}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Read(text)
		if err != nil {
			if got != nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(),
				"not a valid configuration of hookhost") || strings.Contains(err.Error(), "default of") {
				t.Errorf("%q: %+v, error %v", text, got, err)
			}
			return
		}
		checkRows(t, text, got)
	})
}
