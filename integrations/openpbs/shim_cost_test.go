package openpbs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// The script has to be valid for every Python that a PBS is built with. The rule holds for the
// files of this folder and for the script that is made of them.
func TestShimSyntax(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("hookhost.py")
	must.NoError(t, err)
	for _, c := range body { // the text of a constant, raw, that ''' ends
		if c != '\n' && (c < ' ' || c > '~') {
			t.Errorf("hookhost.py has the character %q", c)
		}
	}
	if strings.Contains(string(body), "'''") || !strings.HasSuffix(string(body), ")\n") {
		t.Error("hookhost.py cannot be in a constant")
	}
	const check = `import ast, sys
with open(sys.argv[1], "rb") as f:
    source = f.read()
tree = ast.parse(source, feature_version=(3, 6)) if sys.version_info >= (3, 8) else ast.parse(source)
names = set()
for node in ast.walk(tree):
    if isinstance(node, ast.Import):
        names.update(a.name for a in node.names)
    elif isinstance(node, ast.ImportFrom):
        names.add(node.module)
if len(sys.argv) > 2:  # the last statement is exec(load(TEXT))
    with open(sys.argv[2]) as f:
        assert ast.literal_eval(tree.body[-1].value.args[0].args[0]) == f.read(), "the text is another"
print(" ".join(sorted(names)))`
	for _, python := range pythons() {
		// The module json is imported only where a daemon does not answer.
		for want, files := range map[string][]string{"_socket json os pbs socket time": {"hookhost.py"},
			"marshal os pbs sys": {shimPath(t), "hookhost.py"}} {
			out, err := exec.Command(python, append([]string{"-c", check}, files...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", python, err, out)
			} else if have := strings.TrimSpace(string(out)); have != want {
				t.Errorf("%s: %s imports %s", python, files[0], have)
			}
		}
	}
}

// Each Python that this machine has runs it: accepted, rejected, launched, given up.
func TestShimPythons(t *testing.T) {
	t.Parallel()
	for _, python := range pythons() {
		version, _ := exec.Command(python, "--version").Output()
		t.Run(strings.TrimSpace(string(version)), func(t *testing.T) {
			m := newHookMoM(t)
			m.python = python
			answers := map[string][]string{}
			startGolden(t, m, answers)
			for _, event := range []string{"job82/execjob_launch", "job82/execjob_epilogue", "host/exechost_startup",
				"abort86/execjob_begin"} {
				kind := eventOf.FindStringSubmatch(captured(t, event))[1]
				answers["now"] = script[kind]
				if own, found := script[event]; found {
					answers["now"] = own
				}
				r := m.run(captured(t, event))
				want, err := os.ReadFile(filepath.Join("testdata/golden", strings.ReplaceAll(event, "/", "_")+".txt"))
				must.NoError(t, err)
				if have := "# what MoM reads\n" + r.out + "# what is logged\n" + r.said; have != string(want) {
					t.Errorf("%s: have\n%s\nwant\n%s", event, have, want)
				}
			}
			os.Remove(m.socket)
			must.NoError(t, os.WriteFile(m.at("server"), []byte("pbshost\tfree\tmine"), 0o600))
			m.env = []string{"PBS_STANDIN_SERVER=" + m.at("server")}
			if r := m.run(anEvent(t, "execjob_begin")); r.accepted() ||
				!strings.Contains(r.out, `comment=mine Hook hookhost: the daemon does not answer`) || len(r.log) != 1 {
				t.Errorf("%s%s", r.out, r.said)
			}
		})
	}
}

var importLine = regexp.MustCompile(`(?m)^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)$`)

// Beside what the interpreter has anyway it imports one module.
func TestShimImports(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	if exec.Command(m.python, "-X", "importtime", "-c", "pass").Run() != nil {
		t.Skip("this python3 cannot tell what it imports")
	}
	answering(t, m, "setenv", "A", "b", "used", "", "mem", "size", "1kb", "accept")
	nothing := m.at("nothing.py")
	must.NoError(t, os.WriteFile(nothing, []byte("import pbs\npbs.event().accept()\n"), 0o644))
	wrapper := m.at("importtime")
	writeScript(t, wrapper, "#!/bin/sh\nexec "+m.python+" -X importtime \"$@\"\n")
	m.python = wrapper
	imports := func(script string) []string {
		t.Helper()
		var names []string
		r := m.script(script, anEvent(t, "execjob_launch"))
		if !r.accepted() {
			t.Fatalf("%s%s", r.out, r.said)
		}
		for _, line := range importLine.FindAllStringSubmatch(r.said, -1) {
			names = append(names, line[1])
		}
		return names
	}
	had := imports(nothing)
	more := slices.DeleteFunc(imports(shimPath(t)), func(name string) bool { return slices.Contains(had, name) })
	t.Logf("a hook that does nothing: %d modules; the shim: %v more", len(had), more)
	if len(more) > 1 || len(more) == 1 && more[0] != "_socket" {
		t.Errorf("imports %v", more)
	}
	// os and time, which the stand-in has too, are the interpreter's own.
	out, err := exec.Command(python(t), "-c",
		"import sys; print('os' in sys.modules, 'time' in sys.builtin_module_names)").Output()
	if err != nil || string(out) != "True True\n" {
		t.Errorf("%s%v", out, err)
	}
}

// BenchmarkShim is what an event costs by the shim, its daemon answering at once. A hook that does
// nothing is the comparison. The start of the interpreter is in (more), and not in (script). cold
// is the first event after an installation, which finds no compiled code.
func BenchmarkShim(b *testing.B) {
	m := newHookMoM(b)
	answering(b, m, "used", "", "cpupercent", "long", "0", "used", "", "cput", "duration", "0", "used", "", "mem",
		"size", "0kb", "accept")
	m.env = []string{"PBS_STANDIN_TIME=1"}
	nothing := m.at("nothing.py")
	must.NoError(b, os.WriteFile(nothing, []byte("import pbs\npbs.event().accept()\n"), 0o644))
	begin := anEvent(b, "execjob_begin")
	kinds := []string{"nothing", "shim", "cold"}
	took, inside := map[string][]time.Duration{}, map[string][]time.Duration{}
	for b.Loop() {
		for _, kind := range kinds {
			script := shimPath(b)
			switch kind {
			case "nothing":
				script = nothing
			case "cold":
				os.Remove(m.compiled())
			}
			r := m.script(script, begin)
			if !r.accepted() {
				b.Fatalf("%s%s", r.out, r.said)
			}
			_, seconds, _ := strings.Cut(strings.TrimSpace(r.said), "seconds: ")
			s, err := strconv.ParseFloat(seconds, 64)
			must.NoError(b, err)
			took[kind], inside[kind] = append(took[kind], r.took),
				append(inside[kind], time.Duration(s*float64(time.Second)))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Microseconds()) / 1000
	}
	b.ReportMetric(median(took["nothing"]), "nothing-ms")
	b.ReportMetric(median(inside["nothing"]), "nothing-script-ms")
	for _, kind := range kinds[1:] {
		b.ReportMetric(median(took[kind])-median(took["nothing"]), kind+"-more-ms")
		b.ReportMetric(median(inside[kind])-median(inside["nothing"]), kind+"-script-more-ms")
	}
}
