package main_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/must"
)

// scriptPBSServer is `pbsserver`: a PBS server without hooks, behind the stand-in for qmgr in
// testdata. Its state is in the folder pbs, with a line in log for each change. Nothing of this
// machine's PBS is found.
func scriptPBSServer(ts *testscript.TestScript, args []string) {
	state := ts.MkAbs("pbs")
	ts.Check(os.RemoveAll(state))
	ts.Check(os.MkdirAll(state, 0o755))
	for name, text := range map[string]string{"pbs.conf": "PBS_EXEC=" + state + "/exec\nPBS_HOME=$NOT_SET/var\n",
		"hookhost.toml": ""} {
		ts.Check(os.WriteFile(filepath.Join(state, name), []byte(text), 0o600))
	}
	for name, value := range map[string]string{"PATH": ts.Getenv("TESTDATA") + ":" + ts.Getenv("PATH"),
		"QMGR_STATE": state, "HOOKHOST_STATE": state, "PBS_CONF_FILE": state + "/pbs.conf",
		"HOOKHOST_CONFIG": state + "/hookhost.toml", "HOOKHOST_SOCKET": "/run/hookhost/hookhost.sock"} {
		ts.Setenv(name, value)
	}
}

// scriptQmgr is `qmgr DIRECTIVE...`. The directive `import HOOK FILE` imports a script. In place of
// a FILE, `older` is a script of an older hookhost, and `older:HOOK` one that notes a disabled
// hook.
func scriptQmgr(ts *testscript.TestScript, args []string) {
	for _, directive := range args {
		words := strings.Fields(directive)
		if words[0] != "import" {
			ts.Check(ts.Exec("qmgr", "-c", directive))
			continue
		}
		file, disabled, _ := strings.Cut(words[2], ":")
		text := string(openpbs.Script(disabled)) + "\n# older\n"
		if file != "older" {
			text = ts.ReadFile(file)
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		ts.Check(ts.Exec("sh", "-c", `printf '%s\n\n' "$2" | qmgr -c "import hook $1 application/x-python base64 -"`, "sh",
			words[1], encoded))
	}
}

// scriptRegistration is `registration [NOTED]`: the hook hookhost is there as it ought to be. NOTED
// is the hook that it has disabled.
func scriptRegistration(ts *testscript.TestScript, args []string) {
	var hook struct {
		Attributes map[string]string
		Script     string
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("pbs/hookhost.json")), &hook))
	want := map[string]string{"type": "site", "enabled": "true", "user": "pbsadmin", "alarm": "90", "freq": "120",
		"order": "100", "debug": "false", "fail_action": "offline_vnodes",
		"event": "execjob_begin,execjob_epilogue,execjob_end,execjob_preterm,execjob_launch,exechost_periodic," +
			"exechost_startup,execjob_attach,execjob_resize,execjob_abort,execjob_postsuspend,execjob_preresume"}
	if diff := cmp.Diff(want, hook.Attributes); diff != "" {
		ts.Fatalf("attributes (-want +got):\n%s", diff)
	}
	text, err := base64.StdEncoding.DecodeString(hook.Script)
	ts.Check(err)
	noted, _ := openpbs.Ours(text)
	if !strings.HasSuffix(string(text), "\n"+string(openpbs.Shim())) || noted != strings.Join(args, "") {
		ts.Fatalf("the script is not the shim, or notes %q", noted)
	}
	const resources = "diag_messages string\nhookhost string,flag=h\nhost_usage string\n"
	if known := ts.ReadFile("pbs/resources"); known != resources {
		ts.Fatalf("custom resources: %q", known)
	}
}

// PBS is asked for the events that hookhost's own hooks handle. Each of its programs says which
// those are.
func TestPBSIsAskedForTheEventsThatHooksHandle(t *testing.T) {
	must.BesideOthers(t)
	handled := map[string]bool{}
	programs, err := filepath.Glob(filepath.Join(built, "hooks/*"))
	must.NoError(t, err)
	for _, program := range programs {
		out, err := exec.Command(program, "--describe").Output()
		must.NoError(t, err)
		var d struct{ Events []string }
		must.NoError(t, json.Unmarshal(out, &d))
		for _, e := range d.Events {
			handled[e] = true
		}
	}
	want := slices.Sorted(maps.Keys(handled))
	must.Equal(t, "events", want, slices.Sorted(slices.Values(openpbs.Default().Events())))
}
