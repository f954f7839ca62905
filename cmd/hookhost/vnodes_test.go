package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// homeOfMoM gives the node a pbs_mom's home, and returns where the vntype is in it.
func (n *node) homeOfMoM() string {
	n.t.Helper()
	config, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(n.t, err, os.MkdirAll(n.path("pbs/mom_priv"), 0o755),
		os.WriteFile(n.path("hookhost.toml"), fmt.Appendf(config, "\n[openpbs]\nhome = %q\n", n.path("pbs")), 0o600))
	return n.path("pbs/mom_priv/vntype")
}

// TestStartupTellsOfVnodes: exechost_startup is answered with this host's vnodes. The vntype that
// it brings turns on what the configuration has for it, there and then and after a restart.
func TestStartupTellsOfVnodes(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t, "[vnodes]\nvnode_per_numa_node = \"vntype in: fat*\"\n[host]\nstart_timeout = \"60s\"\nnode = "+
		"\"n1\"\n[cpu]\nenabled = \"host not in: n1\"")
	vntype := n.homeOfMoM()
	if r := n.hookhost("config", "check"); r.status != 0 {
		t.Fatalf("config check: %+v", r)
	}
	shown := func() string {
		t.Helper()
		r := n.hookhost("config", "show")
		if r.status != 0 {
			t.Fatalf("config show: %+v", r)
		}
		return r.stdout
	}
	if text := shown(); !strings.Contains(text, "vnode_per_numa_node = false") ||
		!strings.Contains(text, `line 4: vnodes.vnode_per_numa_node = false, from "vntype in: fat*"`) ||
		!strings.Contains(text, "(vntype: none: there is no "+vntype+")") ||
		!strings.Contains(text, `cpu.enabled = false, from "host not in: n1"`) {
		t.Errorf("config show before PBS told the vntype:\n%s", text)
	}
	vnodes := func(event string) map[string]struct {
		Resources map[string]string `json:"resources_available"`
	} {
		t.Helper()
		r := n.send("exechost_startup", event)
		var out struct {
			Vnodes map[string]struct {
				Resources map[string]string `json:"resources_available"`
			}
		}
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || r.status != 0 {
			t.Fatalf("%+v: %v", r, err)
		}
		return out.Vnodes
	}
	d := n.serve()
	all := vnodes(`{"event":"exechost_startup","vnode_list":{"n1":{"resources_available":{"ncpus":2}}}}`)
	if natural := all["n1"].Resources; len(all) != 1 || natural["ncpus"] == "" || natural["ncpus"] == "0" ||
		!strings.HasSuffix(natural["mem"], "kb") || natural["vntype"] != "" {
		t.Errorf("without a vntype: %+v, want the natural vnode with all there is", all)
	}
	inForce, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(t, err)
	edit := func(text []byte) {
		must.NoError(t, os.WriteFile(n.path("hookhost.toml"), text, 0o600))
	}
	edit([]byte("[memory]\nenabl")) // somebody is at it: PBS's word is no reload
	all = vnodes(`{"event":"exechost_startup","vnode_list":{"n1":{"resources_available":{"ncpus":2,"vntype":"fat2"}}}}`)
	edit(inForce)
	if natural, first := all["n1"].Resources, all["n1[0]"].Resources; natural["ncpus"] != "0" ||
		natural["mem"] != "0kb" || first["mem"] == "" || first["vntype"] != "fat2" {
		t.Errorf("with its vntype: %+v, want a vnode for each NUMA node", all)
	}
	if b, err := os.ReadFile(vntype); err != nil || string(b) != "fat2\n" {
		t.Errorf("kept: %q, %v", b, err)
	}
	d.stop()
	if text := shown(); !strings.Contains(text, "vnode_per_numa_node = true") {
		t.Errorf("config show after PBS told the vntype:\n%s", text)
	}
	d = n.serve()
	defer d.stop()
	if all := vnodes(`{"event":"exechost_startup"}`); all["n1[0]"].Resources["vntype"] != "fat2" {
		t.Errorf("after a restart: %+v", all)
	}
	// MoM repeats what it was told last. The file counts.
	const repeated = `{"event":"exechost_startup","vnode_list":{"n1":{"resources_available":{"ncpus":2,"vntype":"fat2"}}}}`
	must.NoError(t, os.WriteFile(vntype, []byte("thin\n"), 0o644))
	if all := vnodes(repeated); len(all) != 1 || all["n1"].Resources["vntype"] != "thin" {
		t.Errorf("with another vntype in the file: %+v", all)
	}
	must.NoError(t, os.WriteFile(vntype, nil, 0o644))
	if all := vnodes(repeated); len(all) != 1 || all["n1"].Resources["vntype"] != "" {
		t.Errorf("with none in the file: %+v", all)
	}
	if b, err := os.ReadFile(vntype); err != nil || len(b) > 0 {
		t.Errorf("the file has now: %q, %v", b, err)
	}
}

// The configuration that PBS has sent may be the only one of a node, as after a migration.
func TestVntypeIsKnownFromTheStartWithoutAFileOfTheNode(t *testing.T) {
	name, err := os.Hostname()
	must.NoError(t, err)
	m := newMoMOf(t, name)
	sent := fmt.Sprintf("[cgroup]\nprefix = %q\n[host]\nenabled = \"vntype not in: no_cgroups\"\n[shim]\nsocket = %q\n",
		m.prefix, m.path("run/s"))
	must.NoError(t, os.WriteFile(m.at("mom_priv/hooks/hookhost.CF"), []byte(sent), 0o600),
		os.WriteFile(m.at("mom_priv/vntype"), []byte("no_cgroups\n"), 0o644))
	users, err := os.ReadFile("/etc/passwd")
	must.NoError(t, err)
	etc := func() error {
		return errors.Join(unix.Mount("none", "/etc", "tmpfs", 0, ""), os.WriteFile("/etc/passwd", users, 0o644),
			os.WriteFile("/etc/pbs.conf", []byte("PBS_HOME="+m.home+"\n"), 0o644))
	}
	m.serveBy(func(cmd *exec.Cmd) error {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "HOOKHOST_CONFIG=") })
		return startAmong(cmd, etc)
	})
	j := pbsJob{id: "1." + name, list: "ncpus=1,mem=32mb"}
	m.begin(j)
	if dirs := m.dirsOf(j.id); len(dirs) > 0 {
		t.Errorf("a job on an excluded node is in %v", dirs)
	}
}
