package hookhost

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hookhost/hookhost/"

// edges is the architecture: each package of the module and which others of ours it may import,
// tests apart. A package that is not here, and an edge that is not here, is a failure; so is a line
// here that no code needs.
var edges = map[string][]string{
	"hostapi":                 {"hostapi/internal/hookpb"},
	"hostapi/internal/hookpb": {},
	"hostapi/hooktest":        {"hostapi"},
	"hostapi/examples":        {},
	"hostapi/examples/deny":   {"hostapi"},

	"internal/condition": {"internal/pbs"},
	"internal/config": {"integrations/openpbs/table", "internal/condition", "internal/devrule", "internal/kernfs",
		"internal/pbs", "internal/spelling"},
	"internal/pbs":       {},
	"internal/kernfs":    {},
	"internal/topology":  {"internal/kernfs"},
	"internal/placement": {"internal/kernfs", "internal/topology"},
	"internal/disk":      {},
	"internal/nodestate": {"internal/disk"},
	"internal/tinyhttp":  {},
	"internal/sample":    {},
	"internal/spelling":  {},
	"internal/cgroup":    {"hostapi", "internal/disk", "internal/kernfs", "internal/proc", "internal/sample"},
	"internal/proc":      {"hostapi", "internal/kernfs"},
	"internal/systemd":   {},
	"internal/daemon": {"hostapi", "integrations/openpbs", "internal/api", "internal/cgroup", "internal/condition",
		"internal/config", "internal/delivery", "internal/disk", "internal/host", "internal/jobstate",
		"internal/kernfs", "internal/mom", "internal/nodestate", "internal/openpbs", "internal/pbs",
		"internal/plugin", "internal/proc", "internal/metrics", "internal/pam", "internal/report",
		"internal/reports", "internal/settings", "internal/systemd"},
	"internal/devfilter": {"internal/devrule", "internal/kernfs"},
	"internal/devrule":   {},
	"internal/rapl":      {"internal/kernfs"},
	"internal/inventory": {"internal/disk", "internal/kernfs", "internal/topology"},
	"internal/series":    {"hostapi"},
	"internal/usage":     {"hostapi", "internal/pbs", "internal/series"},
	"internal/jobstate":  {"hostapi", "internal/disk", "internal/pbs", "internal/series"},
	"internal/report": {"hostapi", "internal/condition", "internal/jobstate", "internal/pbs", "internal/series",
		"internal/spelling", "internal/usage"},
	"internal/reports": {"hostapi", "internal/disk", "internal/passwd", "internal/pbs", "internal/report",
		"internal/series"},
	"internal/delivery": {"internal/disk", "internal/plugin", "internal/proc", "internal/report",
		"internal/series"},
	"internal/plugin": {"hostapi", "internal/disk", "internal/passwd", "internal/spelling"},
	"internal/passwd": {},
	"internal/conformance": {"hostapi", "internal/kernfs", "internal/passwd", "internal/plugin",
		"internal/proc", "internal/spelling"},
	"internal/host": {"hostapi", "internal/jobstate", "internal/passwd", "internal/pbs", "internal/plugin",
		"internal/report", "internal/reports", "internal/series", "internal/usage"},
	"internal/api":     {"hostapi", "internal/disk", "internal/report"},
	"internal/metrics": {"hostapi", "internal/api", "internal/host"},
	"internal/top":     {"hostapi", "internal/api", "internal/pbs"},
	"internal/web": {"hostapi", "internal/api", "internal/disk", "internal/jobstate", "internal/passwd",
		"internal/report"},
	"internal/mom": {"hostapi", "internal/kernfs", "internal/mountns", "internal/passwd", "internal/pbs",
		"internal/proc"},
	"internal/mountns": {"internal/disk", "internal/kernfs", "internal/proc"},
	"internal/tm":      {"hostapi", "internal/api", "internal/pbs"},
	"internal/pam": {"hostapi", "internal/api", "internal/config", "internal/disk", "internal/passwd",
		"internal/pbs"},
	"internal/rank":    {"hostapi", "internal/kernfs", "internal/proc"},
	"internal/stray":   {"hostapi", "internal/kernfs", "internal/proc"},
	"internal/openpbs": {"hostapi", "internal/nodestate", "internal/pbs", "internal/usage"},

	"internal/settings": {"integrations/openpbs", "internal/config", "internal/disk", "internal/nodestate",
		"internal/pbs", "internal/plugin"},

	"internal/pbscgroups": {"internal/config"},

	"internal/doctor": {"integrations/openpbs", "integrations/openpbs/table", "internal/api", "internal/cgroup",
		"internal/config", "internal/delivery", "internal/devfilter", "internal/disk", "internal/inventory",
		"internal/kernfs", "internal/mountns", "internal/nodestate", "internal/openpbs", "internal/pam", "internal/pbs",
		"internal/pbscgroups", "internal/placement", "internal/plugin", "internal/rapl", "internal/settings",
		"internal/systemd", "internal/topology"},

	"hooks/cgroup": {"hostapi", "internal/cgroup", "internal/config", "internal/inventory", "internal/kernfs",
		"internal/nodestate", "internal/pbs", "internal/placement", "internal/proc", "internal/rank",
		"internal/rapl", "internal/sample", "internal/series", "internal/systemd", "internal/topology",
		"internal/usage"},
	"hooks/devices": {"hostapi", "internal/cgroup", "internal/config", "internal/devfilter", "internal/devrule",
		"internal/disk", "internal/inventory", "internal/kernfs", "internal/placement", "internal/series",
		"internal/topology"},
	"hooks/walltime": {"hostapi", "internal/cgroup", "internal/config", "internal/kernfs", "internal/pbs",
		"internal/proc"},
	"hooks/mpi": {"hostapi", "internal/cgroup", "internal/config", "internal/disk", "internal/kernfs",
		"internal/pbs", "internal/proc", "internal/rank", "internal/stray"},
	"hooks/container": {"hostapi", "internal/config", "internal/passwd", "internal/proc"},
	"hooks/private": {"hostapi", "internal/cgroup", "internal/config", "internal/disk", "internal/kernfs",
		"internal/mountns", "internal/pbs", "internal/proc"},
	"lab/compare":                {},
	"lab/gotest":                 {},
	"lab/openpbs":                {},
	"lab/packages":               {},
	"integrations/openpbs":       {"hostapi", "internal/disk"},
	"integrations/openpbs/table": {},
	"integrations/openpbs/qmgr":  {"integrations/openpbs", "internal/pbs"},
	"integrations/openpbs/qstat": {"internal/pbs"},

	"cmd/nvml":       {"internal/inventory"},
	"cmd/pbs-attach": {"internal/tinyhttp"}, // their time is start-up
	"cmd/pbs-python": {"integrations/openpbs/table", "internal/tinyhttp"},

	"cmd/hookhost": {"hostapi", "hostapi/examples", "integrations/openpbs", "integrations/openpbs/qmgr",
		"integrations/openpbs/qstat", "internal/api", "internal/config", "internal/conformance", "internal/daemon",
		"internal/doctor", "internal/mom", "internal/openpbs",
		"internal/pam", "internal/passwd", "internal/pbs", "internal/pbscgroups", "internal/plugin", "internal/report",
		"internal/reports", "internal/settings", "internal/spelling", "internal/tm", "internal/top", "internal/web"},
}

// testOnly packages may be imported from _test.go files alone.
var testOnly = []string{
	"internal/kernfs/kernfstest", "internal/cgroup/cgrouptest", "internal/must", "internal/plugin/plugintest",
	"internal/proc/proctest", "internal/report/reporttest",
	"hostapi/hooktest",
}

// libraries lists who may import what from outside: one door for each.
var libraries = map[string][]string{
	"github.com/hashicorp/go-plugin": {"hostapi", "hostapi/hooktest", "internal/plugin"},
	"google.golang.org/grpc": {"hostapi", "hostapi/hooktest", "hostapi/internal/hookpb",
		"internal/conformance", "internal/plugin"},
	"github.com/spf13/cobra":           {"cmd/hookhost"},
	"github.com/containerd/cgroups/v3": {"internal/cgroup", "internal/doctor"},
	"github.com/prometheus/procfs":     {"internal/doctor"},
	"github.com/moby/sys/mountinfo":    {"internal/cgroup"},
	"github.com/godbus/dbus/v5":        {"internal/systemd"},
	"github.com/cilium/ebpf":           {"internal/devfilter"},
	"github.com/NVIDIA/go-nvml":        {"cmd/nvml"},

	"github.com/prometheus/client_golang": {"internal/metrics"},
	"github.com/prometheus/client_model":  {"internal/metrics"},

	"charm.land/bubbletea/v2":         {"internal/top"},
	"github.com/charmbracelet/x/ansi": {"internal/top"},
	"github.com/charmbracelet/x/term": {"internal/top"},
	"golang.org/x/net":                {"internal/metrics", "internal/web"},

	"github.com/coreos/go-systemd/v22/dbus":   {"internal/systemd"},
	"github.com/coreos/go-systemd/v22/daemon": {"internal/daemon"},

	"tags.cncf.io/container-device-interface": {"hooks/devices"},

	"pgregory.net/rapid":              {}, // tests alone
	"github.com/rogpeppe/go-internal": {}, // tests alone

	"crypto/tls":  {}, // hookhost talks to no other host
	"crypto/x509": {},
}

type goPackage struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImportDirection(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name == p.ImportPath || slices.Contains(testOnly, name) && name != "hostapi/hooktest" {
			continue // the root, which holds only this test
		}
		allowed, known := edges[name]
		if !known {
			t.Errorf("package %s is not in the table: give it a line and say in docs/architecture.md what it is", name)
			continue
		}
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module); ok {
				used[name+" "+ours] = true
				if !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s: not an edge of the architecture", name, ours)
				}
				if slices.Contains(testOnly, ours) {
					t.Errorf("%s imports %s outside of a test", name, ours)
				}
			}
			for lib, who := range libraries {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(who, name) {
					t.Errorf("%s imports %s: only %v may", name, imp, who)
				}
			}
		}
	}
	for name, allowed := range edges {
		for _, imp := range allowed {
			if !used[name+" "+imp] {
				t.Errorf("%s does not import %s any more: delete the edge from the table", name, imp)
			}
		}
	}
}

// Only mains, and hostapi.Serve for a hook's main, read the environment, end the process or catch
// signals.
func TestOnlyMainsTouchTheProcess(t *testing.T) {
	forbidden := map[string][]string{
		"os":        {"Exit", "Getenv", "LookupEnv", "Environ", "Setenv"},
		"os/signal": {"Notify", "NotifyContext", "Ignore"},
	}
	mains := []string{"cmd/", "hooks/", "hostapi", "lab/", "testdata/"}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if slices.Contains(testOnly, name) ||
			slices.ContainsFunc(mains, func(m string) bool { return strings.HasPrefix(name, m) }) {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			imported := map[string]string{}
			for _, imp := range f.Imports {
				full, _ := strconv.Unquote(imp.Path.Value)
				imported[path.Base(full)] = full
				if full == "flag" {
					t.Errorf("%s imports flag: only mains may", name)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(forbidden[imported[x.Name]], sel.Sel.Name) {
					t.Errorf("%s: %s.%s: only mains may", fset.Position(n.Pos()), x.Name, sel.Sel.Name)
				}
				return true
			})
		}
	}
}

// kernelRooms are doors to the kernel, and what is built on them alone.
var kernelRooms = []string{
	"internal/kernfs", "internal/cgroup", "internal/proc", "internal/stray", "internal/topology",
	"internal/placement", "internal/devfilter", "internal/systemd", "internal/inventory",
}

// A file of cmd/hookhost holds flags or printing. Rules and kernel interfaces are in packages with
// names.
func TestCommandsReadFlagsAndPrint(t *testing.T) {
	for _, room := range kernelRooms {
		if slices.Contains(edges["cmd/hookhost"], room) {
			t.Errorf("cmd/hookhost imports %s: no command asks the kernel", room)
		}
	}
	for _, p := range packages(t) {
		if p.ImportPath != module+"cmd/hookhost" {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"github.com/spf13/cobra"`) && !slices.Contains(beside, file) {
				t.Errorf("cmd/hookhost/%s is no command: move its rules to a package with a name", file)
			}
		}
	}
}

// beside are files of cmd/hookhost that are part of commands. They hold the table of jobs and the
// way of all text to people.
var beside = []string{"console.go", "jobtable.go"}

// A stranger finds files by their nouns; these are none.
func TestNoJunkDrawers(t *testing.T) {
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			switch strings.TrimSuffix(file, ".go") {
			case "util", "utils", "common", "helpers", "helper", "misc", "types", "consts", "constants", "manager":
				t.Errorf("%s/%s: name it after the noun inside", strings.TrimPrefix(p.ImportPath, module), file)
			}
		}
	}
}

// A hook's state is opaque to all but that hook. So no code names the hook whose state it reads.
func TestHookStateIsOpaque(t *testing.T) {
	names := regexp.MustCompile(`HookState\["`)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if names.Match(text) {
			t.Errorf("%s reads the state of one hook", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
