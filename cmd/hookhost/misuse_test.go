package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Whatever is wrong with what a caller says: one line, exit status 2, and nothing was made.
func TestMisuseEndsInOneLineAndStatus2(t *testing.T) {
	big := `{"event":"execjob_begin","job":{"id":"1.x","name":"` + strings.Repeat("x", 50<<20) + `"}}`
	tests := []struct {
		name  string
		args  []string
		stdin string
		want  string
	}{
		{"job id that is a path", []string{"run", "--job", "../../x", "--", "true"}, "", `"../../x"`},
		{"user of an empty variable", []string{"run", "-u", "", "--", "true"}, "", "--user: no value"},
		{"job id of an empty variable", []string{"run", "--job", "", "--", "true"}, "", "--job: no value"},
		{"name that is too long", []string{"run", "-N", strings.Repeat("x", 231), "--", "true"}, "", "231 bytes"},
		{"no resource", []string{"run", "-l", "", "--", "true"}, "", "a resource is missing"},
		{"size that is none", []string{"run", "-l", "mem=banana", "--", "true"}, "", "mem=banana"},
		{"kill delay that is none", []string{"run", "-l", "kill_delay=soon", "--", "true"}, "",
			`kill_delay: duration soon`},
		{"negative kill delay", []string{"run", "-l", "kill_delay=-1", "--", "true"}, "", `kill_delay: duration -1`},
		{"event with such a job id", []string{"event", "execjob_begin"},
			`{"event":"execjob_begin","job":{"id":"../../x","owner":{"user":"root"}}}`, `../../x`},
		{"event with such a size", []string{"event", "execjob_begin"},
			`{"event":"execjob_begin","job":{"id":"1.x","owner":{"user":"root"},"resource_list":{"mem":"banana"}}}`,
			"mem=banana"},
		{"event without a job", []string{"event", "execjob_begin"}, `{"event":"execjob_begin"}`, "job"},
		{"event of the wrong type", []string{"event", "execjob_begin"}, `{"event":"execjob_begin","job":{"id":7}}`,
			"job.id"},
		{"JSON that is no event", []string{"event", "execjob_begin"}, `[1,2,3]`, "event"},
		{"no JSON", []string{"event", "execjob_begin"}, `job: 12`, "event"},
		{"nothing", []string{"event", "execjob_begin"}, ``, "event"},
		{"50 MB of JSON", []string{"event", "execjob_begin"}, big, "8"},
		{"unknown event", []string{"event", "execjob_migrate"}, `{}`, "execjob_migrate"},
		{"unknown command", []string{"frobnicate"}, "", "frobnicate"},
		{"unknown flag", []string{"run", "--frobnicate"}, "", "frobnicate"},
		{"no command", []string{"run"}, "", "run"},
		{"unknown report format", []string{"run", "--report=xml", "--", "true"}, "", "xml"},
		{"attach of nothing", []string{"attach"}, "", "must specify pid or command"},
		{"attach of no pid", []string{"attach", "-p", "x1"}, "", "bad pid: x1"},
		{"attach to no port", []string{"attach", "-m", "0", "-p", "1234"}, "", "bad port: 0"},
		{"attach of both", []string{"attach", "-p", "1234", "true"}, "", "attach: cannot specify pid and command"},
		{"report of no job id", []string{"report", "x:y"}, "", "x:y"},
		{"hook without a name", []string{"hook", "create"}, "", "hook"},
		{"hook with a path for a name", []string{"hook", "create", "../x"}, "", "../x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			cmd := n.alone(tt.args...)
			cmd.Stdin = strings.NewReader(tt.stdin)
			r := n.finish(cmd)
			if r.status != 2 {
				t.Errorf("status %d, want 2", r.status)
			}
			if strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "hookhost: ") || len(r.stderr) > 500 {
				t.Errorf("stderr is not one short line: %q", r.stderr)
			}
			if !strings.Contains(r.stderr, tt.want) {
				t.Errorf("stderr %q does not tell of %q", r.stderr, tt.want)
			}
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
			if exists(n.path("state")) || exists(n.path("hooks.d")) || len(n.cgroups("")) > 0 {
				t.Error("something was made")
			}
		})
	}
}

func TestMisuseOfTheConfiguration(t *testing.T) {
	for _, args := range [][]string{{"run", "--", "true"}, {"config", "check"}, {"serve"}, {"doctor"}} {
		n := newNode(t, "[memory]\ndefautl = \"1gb\"")
		r := n.hookhost(args...)
		if r.status != 2 || strings.Count(r.stderr, "\n") != 1 ||
			!strings.Contains(r.stderr, `line 4: unknown key "memory.defautl"`) {
			t.Errorf("%v: status %d, stderr %q", args, r.status, r.stderr)
		}
		if exists(n.path("state")) {
			t.Errorf("%v: something was made", args)
		}
	}
}

// A configuration file that is named has to be there.
func TestConfigCheckOfNoFile(t *testing.T) {
	n := newNode(t)
	none := n.path("none.toml")
	named := n.command("config", "check")
	named.Env = append(named.Env, "HOOKHOST_CONFIG="+none)
	for _, r := range []result{n.hookhost("config", "check", none), n.hookhost("--config", none, "config", "check"),
		n.finish(named)} {
		if r.status != 2 || r.stdout != "" || !strings.Contains(r.stderr, none+": no such file") {
			t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
		}
	}
}

func TestHelpIsThere(t *testing.T) {
	n := newNode(t)
	for _, command := range []string{"", "serve", "run", "event", "attach", "hook", "jobs", "report", "doctor",
		"config", "version"} {
		args := []string{"--help"}
		if command != "" {
			args = []string{command, "--help"}
		}
		if r := n.hookhost(args...); r.status != 0 || r.stderr != "" || len(r.stdout) < 40 {
			t.Errorf("%s: status %d, stderr %q", command, r.status, r.stderr)
		}
	}
	if r := n.hookhost("version"); r.status != 0 || !strings.HasPrefix(r.stdout, "hookhost ") {
		t.Errorf("version: %+v", r)
	}
}

func TestDoctorFailsWhereConfiningIsImpossible(t *testing.T) {
	n := newNode(t)
	if r := n.hookhost("doctor"); r.status != 0 || !strings.Contains(r.stdout, "memory controller") {
		t.Errorf("status %d, stdout %q", r.status, r.stdout)
	}
	n = newNode(t, "mount = \"/nowhere\"")
	if r := n.hookhost("doctor", "--json"); r.status != 1 || !strings.Contains(r.stdout, `"impossible"`) {
		t.Errorf("cgroups nowhere: status %d, stdout %q", r.status, r.stdout)
	}
}

func TestConfigShowIsAConfiguration(t *testing.T) {
	n := newNode(t)
	r := n.hookhost("config", "show")
	must.NoError(t, os.WriteFile(n.path("shown.toml"), []byte(r.stdout), 0o600))
	if r := n.hookhost("config", "check", n.path("shown.toml")); r.status != 0 {
		t.Errorf("what show prints is refused: %q", r.stderr)
	}
}

// A failure of the system is not the caller's fault.
func TestHookThatCannotBeWrittenIsNoMisuse(t *testing.T) {
	n := newNode(t)
	must.NoError(t, os.WriteFile(n.path("hooks.d"), nil, 0o644))
	if r := n.hookhost("hook", "create", "deny"); r.status != 1 || !strings.Contains(r.stderr, "not a directory") {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
}
