package config

import (
	"reflect"
	"strings"
	"testing"

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
		{allow(`"c 195:* rwm", "c 195:0"`), `devices.allow: "c 195:0": want "KIND MAJOR:MINOR ACCESS"`},
		{allow(`195`), `devices.allow: 195: want a rule such as "c 195:* rwm", or a list`},
		{"[devices]\njobs_per_device = 0", "devices.jobs_per_device = 0: want 1 or more"},
		{"[devices]\nblocks = -1", "devices.blocks = -1"},
		{"[devices]\nblocks = 2\n[vnodes]\nvnode_per_numa_node = true",
			"devices.blocks = 2: want 0 with vnodes.vnode_per_numa_node"},
		{"[devices]\nprobe_timeout = \"0s\"", "devices.probe_timeout = 0s: want 100ms to 50s"},
		{"[devices]\ncdi_dir = \"cdi\"", `devices.cdi_dir = "cdi": want an absolute path in its shortest form`},
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
	example, _, _ = strings.Cut(example, adviceExample)
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
