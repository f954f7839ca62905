package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

var eventType = regexp.MustCompile(`(?m)^pbs\.event\(\)\.type=(\w+)`)

// call is a hook's command line, with the files that it reads and leaves.
type call struct {
	args    []string
	env     []string
	dir     string
	out     string // the file that MoM reads
	command string // the same for a shell
}

// prepare writes the input file and returns the command line: that of pbs_python, but for the
// interpreter. leader is the process that will be its parent, 0 for MoM.
func (m *mom) prepare(input string, leader int) *call {
	m.t.Helper()
	event := eventType.FindStringSubmatch(input)[1]
	stem := m.at(fmt.Sprintf("mom_priv/hooks/tmp/hook_%s_hookhost_%d", event, m.events.Add(1)))
	must.NoError(m.t, os.WriteFile(stem+".in", []byte(input), 0o600))
	interpreter, err := filepath.Abs("../../integrations/openpbs/testdata/pbs_python.py")
	must.NoError(m.t, err)
	c := &call{dir: m.at("mom_priv/hooks/tmp"), out: stem + ".out"}
	if m.by == byShim {
		c.args = []string{"python3", "-S", interpreter, "--hook", "-i", stem + ".in", "-o", c.out, "-L",
			m.at("mom_logs"), "-e", "8191", m.at("mom_priv/hooks/hookhost.PY")}
		c.env = []string{"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PBS_HOOK_CONFIG_FILE=" +
			m.at("mom_priv/hooks/hookhost.CF"), "PBS_STANDIN_SERVER=" + m.at("server")}
	} else {
		c.args = []string{filepath.Join(built, "hookhost"), "event", event, "--input", stem + ".in"}
		if event == "execjob_launch" {
			c.args = append(c.args, "--pid", strconv.Itoa(leader))
		}
		c.env = append(m.env()[len(os.Environ()):], "PATH=/usr/bin:/bin")
	}
	c.command = "cd " + c.dir + " && exec env -i " + strings.Join(slices.Concat(c.env, c.args), " ")
	return c
}

// An answer is what a hook has told MoM.
type answer struct {
	accepted bool
	message  string
	set      map[string]string // what was set, by its name behind pbs.event(): "job.resources_used[mem]"
	raw      string            // the file
}

func (a answer) used(name string) string { return a.set["job.resources_used["+name+"]"] }

var (
	outLine  = regexp.MustCompile(`(?ms)^pbs\.event\(\)\.([^=\n]+?)=("""(.*?)"""|([^\n]*))$`)
	typeWord = regexp.MustCompile(`,\w+\]$`)
)

// read reads what the hook has left, as MoM does (openpbs mom_hook_func.c, get_hook_results).
func (m *mom) read(c *call, input, said string, status int) answer {
	m.t.Helper()
	m.t.Logf("%s: status %d\n%s", eventType.FindStringSubmatch(input)[1], status, said)
	if m.by != byShim {
		return answerOf(m.t, said, status)
	}
	b, err := os.ReadFile(c.out)
	if err != nil || status != 0 {
		m.t.Fatalf("hook: status %d, %v\ninput:\n%s", status, err, input)
	}
	a := answer{set: map[string]string{}, raw: string(b)}
	for _, line := range outLine.FindAllStringSubmatch(a.raw, -1) {
		a.set[typeWord.ReplaceAllString(line[1], "]")] = line[3] + line[4]
	}
	a.accepted, a.message = a.set["accept"] == "True" && a.set["reject"] != "True", a.set["reject_msg"]
	m.t.Log(a.raw)
	return a
}

// answerOf is an outcome that `hookhost event` prints, by the names that MoM's file would have.
func answerOf(t testing.TB, said string, status int) answer {
	t.Helper()
	type used struct {
		ResourcesUsed map[string]string `json:"resources_used"`
	}
	var out struct {
		used
		Reject    bool
		Message   string
		JobAction string            `json:"job_action"`
		SetEnv    map[string]string `json:"set_env"`
		Vnodes    map[string]struct {
			Available map[string]string `json:"resources_available"`
		}
		Jobs map[string]used
	}
	line := said
	for l := range strings.Lines(said) {
		if strings.HasPrefix(l, "{") {
			line = l
		}
	}
	if err := json.Unmarshal([]byte(line), &out); err != nil {
		t.Fatalf("status %d, %v: %s", status, err, said)
	}
	if out.Reject != (status == 1) {
		t.Errorf("status %d for %s", status, line)
	}
	a := answer{accepted: !out.Reject, message: out.Message, set: map[string]string{}, raw: line}
	set := func(prefix string, values map[string]string, end string) {
		for name, v := range values {
			a.set[prefix+name+end] = v
		}
	}
	set("job.resources_used[", out.ResourcesUsed, "]")
	set("set_env.", out.SetEnv, "")
	for name, v := range out.Vnodes {
		set(`vnode_list["`+name+`"].resources_available[`, v.Available, "]")
	}
	for id, j := range out.Jobs {
		set(`job_list["`+id+`"].resources_used[`, j.ResourcesUsed, "]")
	}
	return a
}
