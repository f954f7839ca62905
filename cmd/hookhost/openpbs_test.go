package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// pbsServer is a PBS server's hooks, behind the stand-in for qmgr in testdata.
type pbsServer struct {
	t   *testing.T
	dir string
}

// serverHook is a hook as the stand-in keeps it; contents are base64.
type serverHook struct {
	Attributes     map[string]string
	Script, Config *string
}

func newPBSServer(t *testing.T) *pbsServer {
	t.Helper()
	kernfstest.NeedRoot(t)
	return &pbsServer{t, t.TempDir()}
}

func (s *pbsServer) path(name string) string { return filepath.Join(s.dir, name) }

func (s *pbsServer) touch(name, text string) {
	s.t.Helper()
	must.NoError(s.t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

// command runs a program that finds the stand-in as qmgr, and nothing of this machine's PBS.
func (s *pbsServer) command(stdin []byte, program string, args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	here, err := filepath.Abs("testdata")
	must.NoError(s.t, err)
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "PATH="+here+":"+os.Getenv("PATH"), "QMGR_STATE="+s.dir, "PBS_CONF_FILE="+
		s.path("pbs.conf"),
		"HOOKHOST_CONFIG="+s.path("hookhost.toml"), "HOOKHOST_STATE="+s.dir,
		"HOOKHOST_SOCKET=/run/hookhost/hookhost.sock")
	s.touch("hookhost.toml", "")
	s.touch("pbs.conf", "PBS_EXEC="+s.path("exec")+"\nPBS_HOME=$NOT_SET/var\n")
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &complaints
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// hookhost runs `hookhost openpbs ...`, which has to succeed.
func (s *pbsServer) hookhost(args ...string) string {
	s.t.Helper()
	out, complaints, status := s.command(nil, filepath.Join(built, "hookhost"), append([]string{"openpbs"}, args...)...)
	if status != 0 {
		s.t.Fatalf("hookhost openpbs %v: exit status %d: %s", args, status, complaints)
	}
	return out
}

// refused runs it and wants it to fail with a line that has all the words.
func (s *pbsServer) refused(args []string, words ...string) {
	s.t.Helper()
	_, complaints, status := s.command(nil, filepath.Join(built, "hookhost"), append([]string{"openpbs"}, args...)...)
	if status == 0 || strings.Count(complaints, "\n") != 1 {
		s.t.Errorf("hookhost openpbs %v: exit status %d, %q: want one line", args, status, complaints)
	}
	for _, w := range words {
		if !strings.Contains(complaints, w) {
			s.t.Errorf("hookhost openpbs %v: %q lacks %q", args, complaints, w)
		}
	}
}

func (s *pbsServer) qmgr(directive string) {
	s.t.Helper()
	if _, complaints, status := s.command(nil, "testdata/qmgr", "-c", directive); status != 0 {
		s.t.Fatalf("qmgr -c %q: %s", directive, complaints)
	}
}

func (s *pbsServer) importScript(name, text string) {
	s.t.Helper()
	in := base64.StdEncoding.EncodeToString([]byte(text)) + "\n\n"
	if _, complaints, status := s.command([]byte(in), "testdata/qmgr", "-c", "import hook "+name+
		" application/x-python base64 -"); status != 0 {
		s.t.Fatal(complaints)
	}
}

// stock makes pbs_cgroups as PBS ships it.
func (s *pbsServer) stock(enabled bool) {
	s.t.Helper()
	s.qmgr("create hook pbs_cgroups")
	s.qmgr("set hook pbs_cgroups event = execjob_begin,execjob_launch,exechost_periodic")
	s.qmgr("set hook pbs_cgroups enabled = " + strconv.FormatBool(enabled))
	s.importScript("pbs_cgroups", "import pbs\n")
}

// log returns the directives that changed something since the last call.
func (s *pbsServer) log() []string {
	s.t.Helper()
	b, err := os.ReadFile(s.path("log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	os.Remove(s.path("log"))
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func (s *pbsServer) hook(name string) *serverHook {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name + ".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	h := &serverHook{}
	if err == nil {
		err = json.Unmarshal(b, h)
	}
	must.NoError(s.t, err)
	return h
}

func (h *serverHook) script(t *testing.T) string {
	t.Helper()
	if h == nil || h.Script == nil {
		return ""
	}
	b, err := base64.StdEncoding.DecodeString(*h.Script)
	must.NoError(t, err)
	return string(b)
}

var asRegistered = map[string]string{"type": "site", "enabled": "true", "user": "pbsadmin", "alarm": "90",
	"freq": "120", "order": "100", "debug": "false",
	"fail_action": "offline_vnodes",
	"event": "execjob_begin,execjob_epilogue,execjob_end,execjob_preterm,execjob_launch," +
		"exechost_periodic," +
		"exechost_startup,execjob_attach,execjob_resize,execjob_abort,execjob_postsuspend,execjob_preresume"}

// registered fails unless the hook is there as it ought to be.
func (s *pbsServer) registered() {
	s.t.Helper()
	h := s.hook("hookhost")
	if h == nil {
		s.t.Fatal("no hook")
	}
	must.Equal(s.t, "attributes", asRegistered, h.Attributes)
	if !strings.HasSuffix(h.script(s.t), "\n"+string(openpbs.Shim())) {
		s.t.Error("the script is not the shim")
	}
	if b, err := os.ReadFile(s.path("resources")); string(b) != "diag_messages string\n" {
		s.t.Errorf("custom resources: %q, %v", b, err)
	}
}

// Whatever the hook was, install makes it what it ought to be, by no more directives than that
// needs.
func TestOpenPBSInstall(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	if out := s.hookhost("install", "--dry-run"); !strings.Contains(out,
		"qmgr -c 'create resource diag_messages type = string'\nqmgr -c 'create hook hookhost'\n") {
		t.Errorf("dry run says %q", out)
	}
	if s.hook("hookhost") != nil {
		t.Fatal("a dry run made the hook")
	}
	out := s.hookhost("install")
	s.registered()
	log := s.log()
	want := []string{"create resource diag_messages type = string", "create hook hookhost",
		"set hook hookhost enabled = false",
		"import hook hookhost application/x-python base64 -"}
	if diff := cmp.Diff(want, log[:4]); diff != "" || log[len(log)-2] != "set hook hookhost enabled = true" ||
		log[len(log)-1] != want[3] {
		t.Errorf("directives %q", log)
	}
	for _, d := range log {
		if !strings.Contains(out, "qmgr -c '"+d+"'\n") {
			t.Errorf("it does not say that it did %q", d)
		}
	}
	for _, left := range []string{"kill -HUP", "qmgr -c 'set sched default job_run_wait = execjob_hook'\n"} {
		if !strings.Contains(out, left) {
			t.Errorf("it does not say what is left to do, %s: %q", left, out)
		}
	}
	unchanged := func() {
		t.Helper()
		if out := s.hookhost("install"); !strings.Contains(out, "nothing differs") {
			t.Errorf("done again it says %q", out)
		}
		if log := s.log(); log[0] != "" {
			t.Errorf("done again it does %q", log)
		}
	}
	unchanged()

	s.qmgr("set hook hookhost alarm = 30")
	s.qmgr("set hook hookhost order = 7")
	s.qmgr("set hook hookhost event = execjob_begin")
	s.qmgr("set hook hookhost enabled = false")
	s.log()
	if out := s.hookhost("install"); !strings.Contains(out,
		"is disabled, and stays so. To enable it: qmgr -c 'set hook hookhost enabled = true'") {
		t.Errorf("of a disabled hook it says %q", out)
	}
	want = []string{`set hook hookhost event = "` + strings.Join(openpbs.Default().Events(), ",") + `"`,
		"set hook hookhost freq = 120"} // which PBS forgets with exechost_periodic
	must.Equal(t, "directives", want, s.log())
	s.hookhost("install", "--alarm", "90", "--order", "100")
	must.Equal(t, "directives", []string{"set hook hookhost order = 100", "set hook hookhost alarm = 90"}, s.log())
	s.qmgr("set hook hookhost enabled = true")
	s.registered()

	// A newer script takes the place of an older one while the hook stays enabled: no job begins
	// without it.
	s.importScript("hookhost", string(openpbs.Script(""))+"\n# older\n")
	s.log()
	s.hookhost("install")
	s.registered()
	must.Equal(t, "directives", []string{"import hook hookhost application/x-python base64 -"}, s.log())

	s.touch("site.toml", "[shim]\nwait = \"20s\"\n")
	s.hookhost("config", s.path("site.toml"))
	s.log()
	unchanged()

	s.hookhost("uninstall")
	if s.hook("hookhost") != nil {
		t.Error("uninstall left the hook")
	}
	if out := s.hookhost("uninstall"); !strings.Contains(out, "no hook hookhost") {
		t.Errorf("done again it says %q", out)
	}
}

// The stock hook is disabled with consent alone, right before ours is enabled, and enabled again
// only if that was so.
func TestOpenPBSStockHook(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	s.stock(true)
	s.log()
	s.refused([]string{"install"}, "pbs_cgroups is enabled", "--disable-pbs-cgroups", "Nothing was changed")
	if log := s.log(); log[0] != "" || s.hook("hookhost") != nil {
		t.Errorf("without consent it did %q", log)
	}
	s.hookhost("install", "--disable-pbs-cgroups")
	s.registered()
	if log := s.log(); log[len(log)-3] != "set hook pbs_cgroups enabled = false" {
		t.Errorf("directives %q", log)
	}
	s.hookhost("install") // the note stays
	s.hookhost("uninstall")
	if s.hook("pbs_cgroups").Attributes["enabled"] != "true" || s.hook("hookhost") != nil {
		t.Error("uninstall did not put pbs_cgroups back")
	}

	s = newPBSServer(t)
	s.stock(false)
	s.hookhost("install")
	s.registered()
	s.hookhost("uninstall")
	if s.hook("pbs_cgroups").Attributes["enabled"] != "false" {
		t.Error("uninstall enabled a pbs_cgroups that install had not disabled")
	}
}

func TestOpenPBSRefusals(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	s.qmgr("create hook hookhost")
	s.importScript("hookhost", "import pbs\n")
	s.log()
	s.refused([]string{"install"}, "hook hookhost is there already and not hookhost's")
	s.refused([]string{"uninstall"}, "hook hookhost is not hookhost's: left as it is")
	if log := s.log(); log[0] != "" {
		t.Errorf("it did %q", log)
	}
	s.hookhost("install", "--name", "confine")
	s.log()
	s.refused([]string{"install", "--name", "h2"}, "hook confine is hookhost's already and enabled", "--name confine")
	script := s.hookhost("print", "--name", "h2")
	if _, complaints, status := s.command([]byte(script), "sh"); status == 0 ||
		!strings.Contains(complaints, "hook confine is hookhost's already and enabled") {
		t.Errorf("print says %q", complaints)
	}
	if log := s.log(); log[0] != "" {
		t.Errorf("it did %q", log)
	}
	s = newPBSServer(t)
	s.touch("pending", "")
	s.refused([]string{"install"}, "pending delete", "pbs_mom of every node")
	s.touch("foreign", "")
	s.refused([]string{"install"}, "unauthorized", "on the host of the PBS server")
	s.touch("down", "")
	s.refused([]string{"install"}, "cannot connect to server", "is the PBS server up?")
	s.refused([]string{"install", "--qmgr", "/none/qmgr"}, "/none/qmgr")
}

// The text that print prints does the same by sh and qmgr alone.
func TestOpenPBSPrint(t *testing.T) {
	must.BesideOthers(t)
	for _, tt := range []struct {
		name    string
		prepare func(s *pbsServer)
		args    []string
		fails   string
		noted   string
	}{
		{name: "new", prepare: func(*pbsServer) {}},
		{name: "again", prepare: func(s *pbsServer) { s.hookhost("install") }},
		{name: "half done", prepare: func(s *pbsServer) { s.qmgr("create hook hookhost") }},
		{name: "older", prepare: func(s *pbsServer) {
			s.qmgr("create hook hookhost")
			s.importScript("hookhost", string(openpbs.Script(openpbs.Stock))+"\n# older\n")
		}, noted: openpbs.Stock},
		{name: "stock disabled", prepare: func(s *pbsServer) { s.stock(false) },
			args: []string{"--disable-pbs-cgroups"}},
		{name: "stock enabled", prepare: func(s *pbsServer) { s.stock(true) }, args: []string{"--disable-pbs-cgroups"},
			noted: openpbs.Stock},
		{name: "no consent", prepare: func(s *pbsServer) { s.stock(true) }, fails: "pbs_cgroups is enabled"},
		{name: "foreign", prepare: func(s *pbsServer) {
			s.qmgr("create hook hookhost")
			s.importScript("hookhost", "import pbs\n")
		}, fails: "not hookhost's"},
		{name: "foreign, its first line empty", prepare: func(s *pbsServer) {
			s.qmgr("create hook hookhost")
			s.importScript("hookhost", "\nimport pbs\n")
		}, fails: "not hookhost's"},
		{name: "down", prepare: func(s *pbsServer) { s.touch("down", "") }, fails: "is the server up"},
		{name: "named", prepare: func(s *pbsServer) {
			s.hookhost("install", "--alarm", "30")
		}, args: []string{"--alarm", "90"}},
		{name: "broken off", prepare: func(s *pbsServer) {
			s.touch("limit", "9")
			s.refused([]string{"install"}, "the server is tired")
			os.Remove(s.path("limit"))
		}},
		{name: "taken back", prepare: func(s *pbsServer) {
			s.hookhost("install")
			s.qmgr("set hook hookhost enabled = false")
			s.stock(true)
		}, args: []string{"--disable-pbs-cgroups"}, noted: openpbs.Stock},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newPBSServer(t)
			tt.prepare(s)
			s.log()
			script := s.hookhost(append([]string{"print"}, tt.args...)...)
			out, complaints, status := s.command([]byte(script), "sh")
			if tt.fails != "" {
				if status == 0 || !strings.Contains(complaints, tt.fails) {
					t.Errorf("exit status %d, %q: want %q", status, complaints, tt.fails)
				}
				if log := s.log(); log[0] != "" {
					t.Errorf("it did %q", log)
				}
				return
			}
			if status != 0 || !strings.Contains(out, "kill -HUP") {
				t.Fatalf("exit status %d: %s\n%s", status, complaints, out)
			}
			s.registered()
			if noted, _ := openpbs.Ours([]byte(s.hook("hookhost").script(t))); noted != tt.noted {
				t.Errorf("noted %q, want %q", noted, tt.noted)
			}
			if h := s.hook(openpbs.Stock); h != nil && h.Attributes["enabled"] != "false" {
				t.Error("pbs_cgroups is enabled")
			}
			if len(tt.args) == 0 {
				return
			}
			s.log()
			if s.hookhost("install"); s.log()[0] != "" {
				t.Error("install finds something to change behind it")
			}
		})
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

// A hook of the site's may handle an event more. Both ways ask PBS for it when it is named, and
// leave it in the list when it is not.
func TestOpenPBSAsksForTheEventsThatASiteNames(t *testing.T) {
	must.BesideOthers(t)
	all := slices.Sorted(slices.Values(openpbs.Events()))
	more := []string{"--event", "execjob_prologue", "--event", "execjob_begin"}
	s := newPBSServer(t)
	printed := func(args ...string) {
		t.Helper()
		script := s.hookhost(append([]string{"print"}, args...)...)
		if _, complaints, status := s.command([]byte(script), "sh"); status != 0 {
			t.Fatalf("exit status %d: %s", status, complaints)
		}
	}
	installed := func(args ...string) { t.Helper(); s.hookhost(append([]string{"install"}, args...)...) }
	for _, register := range []func(args ...string){installed, printed} {
		register()
		s.registered()
		for _, args := range [][]string{more, nil} {
			register(args...)
			events := slices.Sorted(strings.SplitSeq(s.hook("hookhost").Attributes["event"], ","))
			must.Equal(t, "events with "+strings.Join(args, " "), all, events)
		}
		s.qmgr("set hook hookhost event = " + strings.Join(openpbs.Default().Events(), ","))
	}
	s.log()
	s.refused([]string{"install", "--event", "queuejob"}, `event "queuejob": want one of pbs_mom's: execjob_begin, `)
	s.refused([]string{"print", "--event", "prologue"}, `event "prologue": want one of pbs_mom's: execjob_begin, `)
	if log := s.log(); log[0] != "" {
		t.Errorf("it did %q", log)
	}
}

// Neither way changes what the site has set of a hook that is installed, nor enables one that
// somebody has disabled.
func TestOpenPBSKeepsTheSitesOwn(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	s.hookhost("install")
	for _, set := range []string{"order = 7", "alarm = 45", "freq = 300", "fail_action = none", "enabled = false"} {
		s.qmgr("set hook hookhost " + set)
	}
	s.importScript("hookhost", string(openpbs.Script(""))+"\n# older\n")
	before := s.hook("hookhost").Attributes
	out, complaints, status := s.command([]byte(s.hookhost("print")), "sh", "-s")
	if status != 0 || !strings.Contains(out, "is disabled, and stays so") {
		t.Fatalf("exit status %d: %s\n%s", status, complaints, out)
	}
	must.Equal(t, "print", before, s.hook("hookhost").Attributes)
	s.log()
	s.hookhost("install")
	if log := s.log(); log[0] != "" {
		t.Errorf("install finds %q to do behind print", log)
	}
}

// The stand-in is set in the place of a pbs_python that is PBS's, by the name of the folder that
// pbs.conf tells, and taken back.
func TestOpenPBSNative(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	sleep, err := exec.LookPath("sleep")
	must.NoError(t, err)
	python, err := os.ReadFile(sleep)
	must.NoError(t, err)
	python = append(python, "--hook -i <hook_input>"...)
	must.NoError(t, os.MkdirAll(s.path("exec/bin"), 0o755))
	must.NoError(t, os.WriteFile(s.path("exec/bin/pbs_python"), python, 0o755))
	is := func(file string, want []byte) {
		t.Helper()
		if got, err := os.ReadFile(s.path("exec/bin/" + file)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what it ought to be: %d bytes, %v", file, len(got), err)
		}
	}
	standIn, err := os.ReadFile(filepath.Join(built, "openpbs/pbs_python"))
	must.NoError(t, err)
	s.hookhost("install", "--native", "--dry-run")
	is("pbs_python", python)
	s.hookhost("install", "--native")
	is("pbs_python", standIn)
	is("pbs_python.openpbs", python)
	if s.hook("hookhost") != nil {
		t.Error("it registered the hook too")
	}
	// The real one is what runs for others: it sleeps for no time at all.
	if out, complaints, status := s.command(nil, s.path("exec/bin/pbs_python"), "0"); status != 0 {
		t.Errorf("exit status %d: %s%s", status, out, complaints)
	}
	s.hookhost("install")
	s.hookhost("uninstall", "--native")
	is("pbs_python", python)
	if s.hook("hookhost") == nil {
		t.Error("uninstall --native took the hook away")
	}
	s.hookhost("install", "--native", "--exec", s.path("exec"))
	is("pbs_python", standIn)
	s.hookhost("uninstall")
	is("pbs_python", python)
	if s.hook("hookhost") != nil {
		t.Error("uninstall left the hook")
	}
	os.Remove(s.path("exec/bin/pbs_python"))
	s.refused([]string{"install", "--native"}, "exec/bin/pbs_python: ", "does not exist")
}
