package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/integrations/openpbs/table"
	"github.com/hookhost/hookhost/internal/must"
)

func TestDefaultIsAConfiguration(t *testing.T) {
	text, err := Default().TOML()
	must.NoError(t, err)
	f, err := Parse(text, Here{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	must.Equal(t, "read back", Default(), f, cmpopts.IgnoreUnexported(File{}))
}

// The text that config show prints is the same configuration with its conditions resolved. On
// another host the file is another configuration.
func TestShownIsReadBack(t *testing.T) {
	f, err := Parse([]byte(`[cgroup]
systemd = "require"
systemd_timeout = "40s"
enable_controllers = ["hugetlb", "io"]
[vnodes]
periodic_resc_update = "vntype not in: fat"
online_nodes_min_delay = "0s"
[memory]
enforce = "both"
high_percent = 90.5
[hugetlb]
default = "3mb"
[io]
max = ["/dev/sd\"a rbps=1mb", "8:0 wiops=5"]
[rlimits]
nofile = "100:unlimited"
[devices]
allow = ["c 195:* rwm", ["console", "rwm"], ["tty0", "rwm", "*"]]
fuse = "vntype in: fat"
blocks = 4
cdi_dir = ""
[[device]]
resource = "fpga"
paths = ["/dev/fpga*"]
model = "u280"
env = { FPGA_DEVICES = "{path}", FPGA_NUMBERS = "{index}" }
[[device]]
resource = "fpga"
paths = ["/dev/xdma0", "/dev/xdma1"]
[[device]]
resource = "dsp"
paths = ["/dev/dsp0"]
[device.env]
enabled = "vntype in: fat"
`), Here{Vntype: "fat"})
	must.NoError(t, err)
	text, err := f.TOML()
	must.NoError(t, err)
	got, err := Parse(text, Here{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	must.Equal(t, "read back", f, got, cmpopts.IgnoreUnexported(File{}))
	if other, err := f.For(Here{}); err != nil || f.Vnodes.PeriodicResourceUsage ||
		!other.Vnodes.PeriodicResourceUsage || other.Memory.Enforce != "both" {
		t.Errorf("elsewhere: %+v, %v; here: %+v", other, err, f.Vnodes)
	}
	if env := f.Device[2].Env["enabled"]; !f.Devices.Fuse || env != "vntype in: fat" {
		t.Errorf("fuse %t, a variable %q", f.Devices.Fuse, env)
	}
	// Hooks get it as JSON.
	b, err := json.Marshal(f)
	must.NoError(t, err)
	got = Default()
	must.NoError(t, json.Unmarshal(b, got))
	must.Equal(t, "through JSON", f, got, cmpopts.IgnoreUnexported(File{}))
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[memory]\ndefautl = \"1gb\"", `line 2: unknown key "memory.defautl": did you mean memory.default?`},
		{"\n{ \"cgroup_prefix\": \"pbs_jobs\" }", "want TOML, not JSON: 'hookhost config import' converts"},
		{"[memry]\n", `unknown key "memry": did you mean memory?`},
		{"[memory]\ndefault = \"banana\"", "line 2: memory.default"},
		{"[memory]\nenabled = \"yes\"", `line 2: memory.enabled: "yes": want true, false, or a condition`},
		{"[memory]\nreserve_percent = nan", "memory.reserve_percent = NaN"},
		{"[memory]\nreserve_percent = 100.0", "memory.reserve_percent = 100"},
		{"[cgroup]\nkill_timeout = 5", `line 2: cgroup.kill_timeout = 5: want a duration with its unit, such as "10s"`},
		{"Cgroup = { KILL_timeout = 5.5 }", `line 1: Cgroup.KILL_timeout = 5.5: want a duration with its unit`},
		{"[devices]\nprobe_timeout = 10\n[[device]]\n", `line 2: devices.probe_timeout = 10: want a duration with its unit`},
		{"[cgroup]\nkill_timeout = \"1ns\"", "cgroup.kill_timeout = 1ns: want 100ms to 50s"},
		{"[cgroup]\nkill_grace = \"100h\"", "cgroup.kill_grace = 100h0m0s: want 0s to 1m0s"},
		{"[series]\ninterval = \"100ms\"", "series.interval = 100ms: want 0s for none, or 1s or more"},
		{"[series]\ninterval = \"2h\"", "series.interval = 2h0m0s: want 0s to 1h0m0s"},
		{"[reports]\nkeep_size = \"much\"", "line 2: reports.keep_size"},
		{"[cgroup]\nkill_grace = \"-1s\"", "line 2: cgroup.kill_grace"},
		{"[cgroup]\nprefix = \"a/b\"", `cgroup.prefix = "a/b"`},
		{"[cgroup]\nprefix = \"pbs\"", `cgroup.prefix = "pbs": want a name other than pbs`},
		{"[cgroup]\nprefix = \"hookhost\"", `cgroup.prefix = "hookhost": want a name other than pbs`},
		{"[cgroup]\nmount = \"/sys/../etc\"", "cgroup.mount"},
		{"[cpuset]\nexclude_cpus = \"0-\"", "cpuset.exclude_cpus"},
		{"[cpuset]\nplacement = \"random\"", `cpuset.placement = "random": want pack or spread`},
		{"[cpu]\ncfs_quota_fudge_factor = 0.0", "cpu.cfs_quota_fudge_factor = 0"},
		{"[cpu]\ncfs_period = \"2s\"", "cpu.cfs_period = 2s"},
		{"[pids]\nmax = 1", "pids.max = 1"},
		{"[pids]\nmax = 4194305", "pids.max = 4194305"},
		{"[rlimits]\n\nnofile = 4096", `line 3: rlimits.nofile = 4096: a limit is text, write "4096"`},
		{"rlimits = { nofile = 4_096 }", `write "4096"`},
		{"[rlimits]\nnope = 3", `line 2: unknown key "rlimits.nope"`},
		{"[host]\nnode = \"a b\"", `host.node = "a b"`},
		{"[host]\nlog_level = \"loud\"", `host.log_level = "loud"`},
		{"x", "line 1"},
	} {
		_, err := Parse([]byte(tt.text), Here{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line with %q", tt.text, err, tt.want)
		}
	}
}

// FuzzParse reads a file. The shim reads the same settings in it, and the file that is written of
// it is the same configuration.
func FuzzParse(f *testing.F) {
	text, err := Default().TOML()
	must.NoError(f, err)
	f.Add(text)
	for part := range strings.SplitSeq(string(text), "\n[") {
		f.Add([]byte("[" + part))
	}
	unexported := cmpopts.IgnoreUnexported(File{})
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b, Here{})
		if (file == nil) != (err != nil) {
			t.Errorf("file %v with error %v", file, err)
		}
		if err != nil {
			if strings.Contains(err.Error(), "\x00") || len(err.Error()) > 1024+8*len(b) {
				t.Errorf("error %q", err)
			}
			return
		}
		shim, usual := table.Read(b), Default().Shim
		for key, want := range map[string][2]string{
			"socket":     {file.Shim.Socket, usual.Socket},
			"unconfined": {strconv.FormatBool(file.Shim.Unconfined), strconv.FormatBool(usual.Unconfined)},
			"offline":    {strconv.FormatBool(file.Shim.Offline), strconv.FormatBool(usual.Offline)},
		} {
			if got, said := shim[key]; got != want[0] && (said || want[0] != want[1]) {
				t.Errorf("the shim reads %s = %q, %q is meant", key, got, want[0])
			}
		}
		written, err := file.TOML()
		must.NoError(t, err)
		if again, err := Parse(written, Here{}); err != nil || !cmp.Equal(again, file, unexported) {
			t.Errorf("%v: written and read again it is otherwise: %s", err, cmp.Diff(file, again, unexported))
		}
	})
}

// What jobs read from and write to disks is counted where the node can do so, whatever is set.
func TestIOIsCountedUnlessTheNodeLacksIt(t *testing.T) {
	f := Default()
	for _, enabled := range []bool{false, true} {
		f.Blkio.Enabled = enabled
		if !slices.Contains(f.Controllers(), "io") || !slices.Equal(f.Placing(), []string{"blkio"}) {
			t.Errorf("enabled = %t: %v and %v", enabled, f.Controllers(), f.Placing())
		}
		if slices.Contains(f.Required(), "blkio") != enabled {
			t.Errorf("enabled = %t: %v is required", enabled, f.Required())
		}
	}
}
