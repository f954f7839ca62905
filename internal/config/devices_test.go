package config

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/devfilter"
	"github.com/hookhost/hookhost/internal/must"
)

func TestDevicesTakes(t *testing.T) {
	for _, text := range []string{
		"[devices]\nallow = []",
		"[devices]\nallow = [\"b *:* rwm\", \"c 195:255 rw\", \"c 136:* rwm\"]",
		"[devices]\naccounting = false\nallow = [[\"infiniband/uverbs*\", \"rwm\"], [\"/dev/tty0\", \"mwr\", 7], " +
			"[\"tty0\", \"rwm\", \"*\"], [\"nvidia0\", \"r\", \"255\"]]",
		"[devices]\ncdi_dir = \"\"\ndcgm_job_mapping_dir = \"/var/lib/dcgm\"",
		"[devices]\nenabled = \"vntype in: gpu\"",
		"[[device]]\nresource = \"fpga-2\"\npaths = [\"/dev/xdma/[0-9]*\"]\nenv = { FPGA = \"{path}\" }",
	} {
		if _, err := Parse([]byte(text), Here{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDevicesRefuses(t *testing.T) {
	const dev = "[[device]]\nresource = \"fpga\"\npaths = [\"/dev/fpga*\"]\n"
	allow := func(entry string) string { return "[devices]\nallow = [" + entry + "]" }
	for _, tt := range []struct{ text, want string }{
		{allow(`"c 195:0"`), `devices.allow: "c 195:0": want a rule such as "c 195:* rwm", or a list`},
		{allow(`"x 1:3 rwm"`), `"x 1:3 rwm": want a rule`},
		{allow(`"c 1 rwm"`), "want a rule"},
		{allow(`"c 4096:0 rwm"`), `major "4096": want * or a number from 0 to 4095`},
		{allow(`"c 1:1048576 rwm"`), `minor "1048576": want * or a number from 0 to 1048575`},
		{allow(`"c 1:3 rx"`), `access "rx": want one or more of r, w and m`},
		{allow(`"c 1:3 rr"`), `access "rr": want one or more of r, w and m, each once`},
		{allow(`["foo[", "rw"]`), `"foo[" is not a name or pattern in /dev`},
		{allow(`195`), "devices.allow: 195: want a rule"},
		{allow(`["console"]`), `devices.allow: ["console"]: want a rule`},
		{allow(`["console", 5]`), `devices.allow: ["console", 5]: want a rule`},
		{allow(`["console", "rwm", "*", "*"]`), "want a rule"},
		{allow(`["../etc/passwd", "rwm"]`), `"../etc/passwd" is not a name or pattern in /dev`},
		{allow(`["", "rwm"]`), `"" is not a name or pattern in /dev`},
		{allow(`["console", ""]`), `access is empty`},
		{allow(`["tty0", "rwm", "x"]`), `minor "x"`},
		{"[devices]\njobs_per_device = 0", "devices.jobs_per_device = 0: want 1 or more"},
		{"[devices]\nblocks = -1", "devices.blocks = -1"},
		{"[devices]\nblocks = 2\n[vnodes]\nvnode_per_numa_node = true",
			"devices.blocks = 2: want 0 with vnodes.vnode_per_numa_node"},
		{"[devices]\nprobe_timeout = \"0s\"", "devices.probe_timeout = 0s: want 100ms to 50s"},
		{"[devices]\ncdi_dir = \"cdi\"", `devices.cdi_dir = "cdi": want a clean absolute path`},
		{"[devices]\ndcgm_job_mapping_dir = \"/a/../b\"", "devices.dcgm_job_mapping_dir"},
		{"[devices]\nenabled = \"yes\"", `line 2: devices.enabled: "yes": want true, false, or a condition`},
		{"[[device]]\npaths = [\"/dev/a\"]", `device 1: resource = "": want the name of a resource`},
		{dev + "[[device]]\nresource = \"a b\"\npaths = [\"/dev/a\"]", `device 2: resource = "a b"`},
		{"[[device]]\nresource = \"NGPUS\"\npaths = [\"/dev/a\"]",
			`resource = "NGPUS": this name has a meaning already`},
		{"[[device]]\nresource = \"rlimit_fpga\"\npaths = [\"/dev/a\"]", "has a meaning already"},
		{"[[device]]\nresource = \"fpga\"", "device 1: paths: want one at least"},
		{"[[device]]\nresource = \"fpga\"\npaths = [\"dev/a\"]",
			`paths: "dev/a": want a clean path or pattern below /dev`},
		{"[[device]]\nresource = \"fpga\"\npaths = [\"/dev/\"]", "below /dev"},
		{"[[device]]\nresource = \"fpga\"\npaths = [\"/dev/../etc/passwd\"]", "below /dev"},
		{"[[device]]\nresource = \"fpga\"\npaths = [\"/dev/a[\"]", "below /dev"},
		{dev + "env = { \"A=B\" = \"1\" }", `env: "A=B" is not a variable's name`},
		{dev + dev, `device 2: paths: "/dev/fpga*" is there twice`},
		{dev + "count = 1", `line 4: unknown key "device.count"`},
	} {
		_, err := Parse([]byte(tt.text), Here{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line with %q", tt.text, err, tt.want)
		}
	}
}

// oddEntries are entries of devices.allow, as JSON, at the borders of what means something.
var oddEntries = []string{
	`"c 1:3 rwm"`, `"c 1:3 mwr"`, `"c 1:3 r"`, `"c 1:3 rr"`, `"c 1:3 rwmr"`, `"c 1:3 rwx"`, `"c 1:3 R"`, `"c 1:3 "`,
	`"c 1:3"`, `" c\t1:3  rw "`, `"c 1 :3 rw"`,
	`"a *:* rwm"`, `"a rwm"`, `"a"`, `"A *:* rwm"`, `"b 8:* m"`, `"x 1:3 rwm"`, `""`, `"c : rw"`, `"c *: rw"`,
	`"c 1:3:4 rw"`, `"c 1:3 r w"`,
	`"c 4095:1048575 rw"`, `"c 4096:0 rw"`, `"c 0:1048576 rw"`, `"c -1:0 rw"`, `"c +1:0 rw"`, `"c 1_0:0 rw"`,
	`"c 0x1:0 rw"`, `"c 007:0 rw"`, `"c ١:0 rw"`,
	`"c 18446744073709551617:0 rw"`, `"c **:0 rw"`, `"c 4294967295:0 rw"`, `"c\u00a01:3\u2003rw"`, `"c 1:3 r\u0000"`,
	`["console", "rw"]`, `["console", "ww"]`, `["console", ""]`, `["console", "rw "]`, `["console", 5]`, `[5, "rw"]`,
	`["console"]`, `[]`, `["", "rw"]`, `[".", "rw"]`,
	`["..", "rw"]`, `["a/../b", "rw"]`, `["a//b", "rw"]`, `["a/", "rw"]`, `["/a", "rw"]`, `["/dev/a", "rw"]`,
	`["/dev//a", "rw"]`, `["/dev/", "rw"]`, `["/dev", "rw"]`,
	`["/dev//dev/a", "rw"]`, `["/dev/../a", "rw"]`, `["dev/a", "rw"]`, `["a\u0000", "rw"]`, `["a b", "rw"]`,
	`["...", "rw"]`,
	`["a*", "rw"]`, `["a[", "rw"]`, `["a[]", "rw"]`, `["a[b-", "rw"]`, `["a[b-a]", "rw"]`, `["a\\", "rw"]`,
	`["a[^", "rw"]`, `["a[!b]", "rw"]`, `["[/]", "rw"]`, `["*/x[", "rw"]`,
	`["tty0", "rwm", "*"]`, `["tty0", "rwm", "7"]`, `["tty0", "rwm", "x"]`, `["tty0", "rwm", ""]`,
	`["tty0", "rwm", "1048576"]`, `["tty0", "rwm", "-1"]`, `["tty0", "rwm", "*", "*"]`,
	`["tty0", "rwm", 7]`, `["tty0", "rwm", -1]`, `["tty0", "rwm", 1048575]`, `["tty0", "rwm", 1048576]`,
	`["tty0", "rwm", null]`, `["tty0", "rwm", true]`, `["tty0", "rwm", ["*"]]`,
	`["tty0", "r", 0.5]`, `["tty0", "r", -0]`, `5`, `null`, `true`, `{}`, `[["tty0", "rw"]]`,
}

// The hook takes what config check takes, and nothing else. A node with a checked file would do
// without devices otherwise.
func TestAllowIsWhatResolveTakes(t *testing.T) {
	taken := 0
	for _, text := range oddEntries {
		if sameAnswer(t, text) {
			taken++
		}
	}
	if taken == 0 || taken == len(oddEntries) {
		t.Errorf("%d of %d entries were taken: the table tells nothing", taken, len(oddEntries))
	}
}

func FuzzAllowIsWhatResolveTakes(f *testing.F) {
	for _, text := range oddEntries {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { sameAnswer(t, text) })
}

// sameAnswer asks both about an entry, config about what TOML makes of it and the hook about what
// it gets over Configure.
func sameAnswer(t *testing.T, text string) (taken bool) {
	var entry any
	if json.Unmarshal([]byte(text), &entry) != nil {
		return false
	}
	found := func(string) ([]devfilter.Node, error) { return []devfilter.Node{{Kind: devfilter.Char, Major: 4}}, nil }
	read := asTOML(entry)
	b, err := json.Marshal(read)
	must.NoError(t, err, json.Unmarshal(b, &entry))
	_, _, resolved := devfilter.Resolve([]any{entry}, found)
	checked := checkAllow(read)
	if (checked == nil) != (resolved == nil) {
		t.Errorf("%s: config says %v, the hook %v", text, checked, resolved)
	}
	return checked == nil
}

// asTOML has whole numbers as the TOML decoder has them, and not as JSON's.
func asTOML(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v && math.Abs(v) < 1<<53 {
			return n
		}
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = asTOML(e)
		}
		return list
	}
	return v
}

// A node without devices of its own shows an example and no table: a table can be added to the text
// that config show prints.
func TestShownTakesADevice(t *testing.T) {
	text, err := Default().TOML()
	must.NoError(t, err)
	f, err := Parse(append(text, "[[device]]\nresource = \"fpga\"\npaths = [\"/dev/fpga0\"]\n"...), Here{})
	if err != nil || len(f.Device) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	_, example, found := strings.Cut(string(text), "# [[device]]\n")
	var lines []string
	for line := range strings.Lines(example) {
		if line = strings.TrimPrefix(line, "# "); strings.Contains(line, " = ") {
			lines = append(lines, line)
		}
	}
	f, err = Parse([]byte("[[device]]\n"+strings.Join(lines, "")), Here{})
	if !found || err != nil || len(f.Device) != 1 || f.Device[0].Resource != "fpga" ||
		f.Device[0].Env["FPGA"] != "{path}" {
		t.Errorf("the example in %s\nis not taken: %v", example, err)
	}
}

// A configured device is shown as it was written, and taken again.
func TestShownHasTheDevices(t *testing.T) {
	f, err := Parse([]byte("[[device]]\nresource = \"fpga\"\npaths = [\"/dev/fpga*\"]\nenv = { FPGA = \"{path}\" "+
		"}\n[[device]]\nresource = \"ve\"\npaths = [\"/dev/ve0\"]\nmodel = \"20B\"\n"), Here{})
	must.NoError(t, err)
	text, err := f.TOML()
	must.NoError(t, err)
	again, err := Parse(text, Here{})
	if err != nil || !reflect.DeepEqual(again.Device, f.Device) || len(f.Device) != 2 ||
		strings.Contains(string(text), "# [[device]]") {
		t.Errorf("%+v, %v of\n%s", again, err, text)
	}
}

// Both show an entry in one way.
func TestShownAsDevfilterDoes(t *testing.T) {
	for _, text := range oddEntries {
		var entry any
		must.NoError(t, json.Unmarshal([]byte(text), &entry))
		if a, b := shownEntry(entry), devfilter.Show(entry); a != b {
			t.Errorf("%s: %s and %s", text, a, b)
		}
	}
}
