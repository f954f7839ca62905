package config

import (
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
