package main_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

const stockConfig = `{
    "exclude_vntypes": ["no_cgroups"],
    "periodic_resc_update": true,
    "ours": 1,
    "cgroup": {
        "memory": { "enabled": true, "default": "256MB", "mount_path": "MOUNT" },
        "cpuset": { "enabled": "host not in: n2", "mem_fences": false }
    }
}`

func TestConfigImport(t *testing.T) {
	n := newNode(t)
	plain, apart := n.path("plain.json"), n.path("apart.json")
	must.NoError(t, os.WriteFile(plain, []byte(strings.Replace(stockConfig, "MOUNT", "/sys/fs/cgroup/memory", 1)),
		0o600),
		os.WriteFile(apart, []byte(strings.Replace(stockConfig, "MOUNT", "/dev/memory", 1)), 0o600))
	imported := n.hookhost("config", "import", plain)
	if imported.status != 0 ||
		!strings.Contains(imported.stdout, "\n[host]\nenabled = \"vntype not in: no_cgroups\" # exclude_vntypes\n") {
		t.Fatalf("%+v", imported)
	}
	for _, line := range []string{
		`LINE KEY VALUE BECAME OURS`,
		`2 exclude_vntypes ["no_cgroups"] ours host.enabled = "vntype not in: no_cgroups"`,
		`4 ours 1 unknown the stock hook`,
		`6 cgroup.memory.mount_path "/sys/fs/cgroup/memory" not needed`,
		`default placement_type "load_balanced" ours cpuset.placement = "spread"`,
	} {
		if !strings.Contains(strings.Join(strings.Fields(imported.stderr), " "), line) {
			t.Errorf("the table has no line %q", line)
		}
	}
	must.NoError(t, os.WriteFile(n.path("got.toml"), []byte(imported.stdout), 0o600))
	if r := n.hookhost("config", "check", n.path("got.toml")); r.status != 0 {
		t.Errorf("config check of what was imported: %+v", r)
	}
	vntype := n.homeOfMoM()
	for text, want := range map[string]string{
		"":      "This host's: none: " + vntype + " is empty.\n",
		"fat\n": "This host's: fat, from " + vntype + ".\n",
	} {
		must.NoError(t, os.WriteFile(vntype, []byte(text), 0o644))
		if r := n.hookhost("config", "import", plain); !strings.HasSuffix(r.stderr, want) {
			t.Errorf("import with the vntype %q: %q, want %q at its end", text, r.stderr, want)
		}
	}
	imported = n.hookhost("config", "import", plain)
	cmd := n.command("config", "import", "-")
	cmd.Stdin, _ = os.Open(plain)
	if r := n.finish(cmd); r != imported {
		t.Errorf("from standard input: %+v", r)
	}

	refused := n.hookhost("config", "import", apart)
	if refused.status != 1 ||
		!strings.Contains(refused.stdout, "# Refused: line 6: cgroup.memory.mount_path = \"/dev/memory\": ") ||
		!strings.HasSuffix(refused.stderr, "apart.json: refused: 1 of 16 keys: see the table\n") {
		t.Errorf("%+v", refused)
	}
	r := n.hookhost("config", "import", "--force", "--json", "--output", n.path("apart.toml"), apart)
	var keys []struct {
		Key, Value, Became, Why string
		Line                    int
		Ours                    []string
	}
	if err := json.Unmarshal([]byte(r.stdout), &keys); err != nil || r.status != 0 || r.stderr != "" ||
		len(keys) != 16 {
		t.Errorf("%d keys, %v: %+v", len(keys), err, r)
	}
	if b, err := os.ReadFile(n.path("apart.toml")); string(b) != refused.stdout {
		t.Errorf("--output wrote %s, %v", b, err)
	}
	if r := n.hookhost("config", "import", "--output", n.path("apart.toml"), plain); r.status != 1 ||
		!strings.Contains(r.stderr, "file exists") {
		t.Errorf("over a file that is there: %+v", r)
	}
	if b, err := os.ReadFile(n.path("apart.toml")); string(b) != refused.stdout {
		t.Errorf("a refused --output wrote %s, %v", b, err)
	}
}

func TestConfigImportErrors(t *testing.T) {
	n := newNode(t)
	for text, want := range map[string]string{
		"{\n\"enabled\": tru}":         "line 2: invalid character",
		"{\"a\":1,\n\"a\":2}":          "line 2: a: given twice",
		"{\n\n\"kill_timeout\": \"\"}": "line 3: kill_timeout = \"\": want a number",
	} {
		must.NoError(t, os.WriteFile(n.path("bad.json"), []byte(text), 0o600))
		if r := n.hookhost("config", "import", n.path("bad.json"), "--output", n.path("out")); r.status != 2 ||
			!strings.Contains(r.stderr, want) || r.stdout != "" || exists(n.path("out")) {
			t.Errorf("%s: %+v, want %s", text, r, want)
		}
	}
	if r := n.hookhost("config", "import", n.path("none")); r.status != 2 ||
		!strings.Contains(r.stderr, "no such file") {
		t.Errorf("%+v", r)
	}
}

// TestHostNotEnabled: where [host] is not enabled nothing is done, from the event on that finds the
// vntype so.
func TestHostNotEnabled(t *testing.T) {
	n := newNode(t, "[host]\nnode = \"n1\"\nstart_timeout = \"60s\"\nenabled = \"vntype not in: no_cgroups and host "+
		"in: n*\"")
	vntype := n.homeOfMoM()
	d := n.serve()
	defer d.stop()
	startup := func(name string) string {
		t.Helper()
		must.NoError(t, os.WriteFile(vntype, []byte(name), 0o644))
		r := n.send("exechost_startup",
			`{"event":"exechost_startup","vnode_list":{"n1":{"resources_available":{"ncpus":2}}}}`)
		if r.status != 0 {
			t.Fatalf("startup: %+v", r)
		}
		return r.stdout
	}
	if out := startup("no_cgroups"); strings.Contains(out, "vnodes") {
		t.Errorf("PBS is told of vnodes: %s", out)
	}
	if r := n.hookhost("doctor"); !strings.Contains(r.stdout, "[host] is not enabled on this host") {
		t.Error("doctor does not say that this host is not enabled")
	}
	for _, event := range []string{"execjob_begin", "execjob_prologue", "execjob_launch", "execjob_epilogue",
		"execjob_end"} {
		if r := n.event(event, "7.s", ""); r.status != 0 || strings.Contains(r.stdout, "env") {
			t.Errorf("%s: %+v", event, r)
		}
		if left := n.jobDirs(); len(left) > 0 {
			t.Errorf("after %s there is %v", event, left)
		}
	}
	if b, err := os.ReadFile(n.path("log")); err != nil || strings.Contains(string(b), "level=error") ||
		strings.Contains(string(b), "level=warning") {
		t.Errorf("the daemon has something to say: %s, %v", b, err)
	}
	if out := startup("plain"); !strings.Contains(out, "vnodes") {
		t.Errorf("with another vntype PBS is not told of vnodes: %s", out)
	}
}
