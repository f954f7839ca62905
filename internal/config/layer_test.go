package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/internal/must"
)

var (
	sent = Layer{"PBS", []byte(`[host]
log_level = "warning"
[cgroup]
enable_controllers = ["hugetlb", "io", "rdma"]
kill_timeout = "20s"
[devices]
allow = ["c 195:* rwm", ["console", "rwm"]]
[memory]
enabled = "host in: n1"
default = "1gb"
enforce = "both"
[rlimits]
nofile = "100"
[[device]]
resource = "fpga"
paths = ["/dev/fpga*"]
env = { FPGA = "{path}" }
[[device]]
resource = "dsp"
paths = ["/dev/dsp*"]
[shim]
wait = "7s"
`)}
	own = Layer{"own", []byte(`host.node = "n1"
[cgroup]
enable_controllers = ["pids"]
[devices]
allow = ["c 1:3 rwm"]
[memory]
default = "2gb"
[rlimits]
stack = "200"
[[device]]
resource = "nic"
paths = ["/dev/nic"]
`)}
)

func TestLaterLayerWinsKeyByKey(t *testing.T) {
	got, err := Merge(Here{Host: "other"}, sent, own)
	must.NoError(t, err)
	want := Default()
	want.Host.LogLevel, want.Host.Node = "warning", "n1"
	want.Cgroup.EnableControllers, want.Cgroup.KillTimeout = []string{"pids"}, Duration(20*time.Second)
	want.Devices.Allow = []any{"c 1:3 rwm"}
	want.Memory.Default, want.Memory.Enforce = 2<<30, "both"
	want.Rlimits = Rlimits{Nofile: "100", Stack: "200"}
	want.Device = []Device{{Resource: "nic", Paths: []string{"/dev/nic"}}}
	want.Shim.Wait = Duration(7 * time.Second)
	must.Equal(t, "", want, got, cmpopts.IgnoreUnexported(File{}))
	got, err = Merge(Here{Host: "other"}, sent)
	must.NoError(t, err)
	if len(got.Device) != 2 || got.Memory.Enabled || len(got.Devices.Allow) != 2 {
		t.Errorf("the first layer alone: %+v", got)
	}
}

// A file of a node in one table must not take back what PBS's says in the same table, nor the
// defaults.
func TestEmptyLayerChangesNothing(t *testing.T) {
	want, err := Merge(Here{}, sent)
	must.NoError(t, err)
	got, err := Merge(Here{}, sent, Layer{"own", []byte("# nothing\n[memory]\n[cgroup]\n")})
	must.NoError(t, err)
	must.Equal(t, "", want, got, cmpopts.IgnoreUnexported(File{}))
}

func TestMergeNamesTheLayerOfAMistake(t *testing.T) {
	for _, tt := range []struct{ sent, own, want string }{
		{"[memory]\nx = 1", "", `configuration PBS: line 2: unknown key "memory.x"`},
		{"", "\n[memory]\nx = 1", `configuration own: line 3: unknown key "memory.x"`},
		{"[devices]\nblocks = 2", "[vnodes]\nvnode_per_numa_node = true",
			"configuration: devices.blocks = 2: want 0 with"},
	} {
		_, err := Merge(Here{}, Layer{"PBS", []byte(tt.sent)}, Layer{"own", []byte(tt.own)})
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q over %q: %v, want %s", tt.own, tt.sent, err, tt.want)
		}
	}
}

func TestShowSaysWhereEachValueComesFrom(t *testing.T) {
	f, err := Merge(Here{}, sent, own)
	must.NoError(t, err)
	text, err := f.Show(func(l Layer) string { return l.Name })
	must.NoError(t, err)
	for _, line := range []string{
		"log_level = 'warning' # PBS, line 2", "node = 'n1' # own, line 1", "kill_timeout = '20s' # PBS, line 5",
		"enable_controllers = ['pids'] # own, line 3", "default = '2097152kb' # own, line 7",
		"enforce = 'both' # PBS, line 11",
		"enabled = true # PBS, line 9", "stack = '200' # own, line 9", "nofile = '100' # PBS, line 13",
		"resource = 'nic' # own, line 11", "wait = '7s' # PBS, line 22", "prefix = 'pbs_jobs' # default",
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
