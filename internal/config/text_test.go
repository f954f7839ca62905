package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/internal/must"
)

// An empty table takes no default back.
func TestEmptyTablesChangeNothing(t *testing.T) {
	got, err := Parse([]byte("# nothing\n[memory]\n[cgroup]\n"), Here{})
	must.NoError(t, err)
	must.Equal(t, "", Default(), got, cmpopts.IgnoreUnexported(File{}))
}

func TestLoadNamesTheFileOfAMistake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.toml")
	for text, want := range map[string]string{
		"\n[memory]\nx = 1": `line 3: unknown key "memory.x"`,

		"[devices]\nblocks = 2\n[vnodes]\nvnode_per_numa_node = true": "devices.blocks = 2: want 0 with",
	} {
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Load(path, Here{})
		if err == nil || !strings.HasPrefix(err.Error(), "configuration "+path+": "+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestShowSaysWhereEachValueComesFrom(t *testing.T) {
	f, err := Parse([]byte(`host.node = "n1"
[cgroup]
enable_controllers = ["hugetlb", "io"]
[memory]
enabled = "host in: n1"
default = "1gb"
[rlimits]
nofile = "100"
[[device]]
resource = "nic"
paths = ["/dev/nic"]
[shim]
wait = "7s"
`), Here{})
	must.NoError(t, err)
	text, err := f.Show("PBS")
	must.NoError(t, err)
	for _, line := range []string{
		"node = 'n1' # PBS, line 1", "enable_controllers = ['hugetlb', 'io'] # PBS, line 3",
		"enabled = true # PBS, line 5", "default = '1048576kb' # PBS, line 6", "nofile = '100' # PBS, line 8",
		"resource = 'nic' # PBS, line 10", "wait = '7s' # PBS, line 13", "prefix = 'pbs_jobs' # default",
		"enabled = true # default",
	} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	for key, want := range map[string]string{
		"shim.wait": "[shim]\n# How", "SHIM.wait": "\nwait = '7s' # PBS, line 13\n",
		"device": "\nresource = 'nic' # PBS, line 10\n",
	} {
		text, err := f.Show("PBS", key)
		must.NoError(t, err)
		if !strings.Contains(string(text), want) || strings.Contains(string(text), "[memory]") ||
			strings.Contains(string(text), "# default") {
			t.Errorf("%s: want %q in\n%s", key, want, text)
		}
	}
	if _, err := f.Show("PBS", "memory.defualt"); err == nil || !strings.Contains(err.Error(), "memory.default?") {
		t.Errorf("an unknown key: %v", err)
	}
	got, err := Parse(text, Here{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	must.Equal(t, "read back", f, got, cmpopts.IgnoreUnexported(File{}))
}

func TestWhoMaySayWhat(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"[memory]\nenabled = true":       "",
		"\nhost.node = 'n'":              "line 2: host.node: only the configuration of a node",
		"[host]\nNODE = 'n'":             "line 2: host.NODE: only",
		"host = { node = 'n' }":          "line 1: host.node: only",
		"[openpbs]\nhome = '/x'":         "line 2: openpbs.home: only",
		"[host]\nnodes_of_mine = 'open'": "",
	} {
		if err := CheckSent([]byte(text)); (want == "") != (err == nil) || err != nil &&
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("sent: %q: %v, want %q", text, err, want)
		}
	}
	if err := CheckOwn([]byte("[shim]\nwait = '5s'")); err == nil ||
		!strings.HasPrefix(err.Error(), "line 2: shim.wait: the shim reads it only") {
		t.Errorf("own: %v", err)
	}
}

func TestSettingsForProgramsHaveEachValueWithItsSource(t *testing.T) {
	f, err := Parse([]byte("[memory]\ndefault = \"1gb\"\n[billing]\nweights = { ncpus = 1.0 }\n"), Here{})
	must.NoError(t, err)
	all, err := f.Settings("FILE")
	must.NoError(t, err)
	values, err := settings(f)
	must.NoError(t, err)
	must.Equal(t, "number of settings", len(values), len(all))
	for _, s := range all {
		must.Equal(t, s.Key, values[s.Key], string(s.Value))
		isSet := s.Key == "memory.default" || s.Key == "billing.weights"
		must.Equal(t, s.Key+" is from the file", isSet, s.Source == "FILE")
	}
	some, err := f.Settings("FILE", "memory.default", "billing.weights")
	must.NoError(t, err)
	must.Equal(t, "chosen", []Setting{
		{Key: "memory.default", Value: json.RawMessage(`"1048576kb"`), Source: "FILE", Line: 2},
		{Key: "billing.weights", Value: json.RawMessage(`{"ncpus":1}`), Source: "FILE", Line: 4},
	}, some)
	if _, err := f.Settings("FILE", "memroy"); err == nil {
		t.Error("an unknown key")
	}
}
