package hookhost_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// image is a node's file system that the Makefile installs programs into. The programs are
// stand-ins: nothing is built.
type image struct {
	t            *testing.T
	tree, folder string
	variables    []string
}

func newImage(t *testing.T, variables ...string) *image {
	i := &image{t: t, tree: t.TempDir(), folder: t.TempDir(), variables: variables}
	must.NoError(t, os.CopyFS(filepath.Join(i.tree, "packaging"), os.DirFS("packaging")))
	for _, name := range []string{"Makefile", "LICENSE", "CHANGELOG.md", "internal/config/default.toml"} {
		text, err := os.ReadFile(name)
		must.NoError(t, err)
		i.write(i.tree, name)
		must.NoError(t, os.WriteFile(filepath.Join(i.tree, name), text, 0o644))
	}
	hooks, err := os.ReadDir("hooks")
	must.NoError(t, err)
	programs := []string{"hookhost", "pbs-attach", "nvml", "openpbs/pbs_python"}
	for _, hook := range hooks {
		must.NoError(t, os.MkdirAll(filepath.Join(i.tree, "hooks", hook.Name()), 0o755))
		programs = append(programs, "hooks/"+hook.Name())
	}
	texts := []string{"man/hookhost.1", "man/hookhost-run.1", "completion/hookhost", "completion/_hookhost",
		"completion/hookhost.fish", "notices.txt"}
	for _, name := range append(programs, texts...) {
		i.write(i.tree, "bin/"+name)
	}
	return i
}

func (i *image) write(folder, name string) {
	i.t.Helper()
	file := filepath.Join(folder, name)
	must.NoError(i.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.NoError(i.t, os.WriteFile(file, []byte("a file"), 0o755))
}

// make returns what a target prints.
func (i *image) make(target string) string {
	i.t.Helper()
	args := append([]string{"-s", "-o", "all", "GO=go", "DESTDIR=" + i.folder, target}, i.variables...)
	cmd := exec.Command("make", args...)
	cmd.Dir = i.tree
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "MAKE") })
	out, err := cmd.CombinedOutput()
	if err != nil {
		i.t.Fatalf("make %s: %v: %s", target, err, out)
	}
	return string(out)
}

// files returns the files and links of the image, and its directories named hookhost.
func (i *image) files() (found []string) {
	i.t.Helper()
	must.NoError(i.t, filepath.WalkDir(i.folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && (!entry.IsDir() || entry.Name() == "hookhost") {
			found = append(found, strings.TrimPrefix(name, i.folder))
		}
		return err
	}))
	return found
}

// TestHostWithoutJobsGetsNoDaemon: what install-server puts there is what install puts there,
// without programs of a node.
func TestHostWithoutJobsGetsNoDaemon(t *testing.T) {
	node, server := newImage(t), newImage(t)
	node.make("install")
	server.make("install-server")
	all := node.files()
	for _, name := range server.files() {
		if !slices.Contains(all, name) {
			t.Errorf("a node does not have %s", name)
		}
		if strings.Contains(name, "libexec") || strings.HasSuffix(name, ".service") {
			t.Errorf("a host without jobs has %s", name)
		}
	}
	if files := server.files(); !slices.Contains(files, "/usr/bin/hookhost") {
		t.Errorf("a host without jobs has %q, without the command", files)
	}
}

// TestExampleConfigurationChangesNothing: each setting of the installed hookhost.toml is a comment.
func TestExampleConfigurationChangesNothing(t *testing.T) {
	i := newImage(t)
	i.make("install")
	text, err := os.ReadFile(filepath.Join(i.folder, "/usr/share/hookhost/hookhost.toml"))
	must.NoError(t, err)
	settings := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '[' {
			t.Errorf("it sets %q", line)
		}
		if regexp.MustCompile(`^#[a-z_]+ = `).MatchString(line) {
			settings++
		}
	}
	if settings < 50 {
		t.Errorf("it has %d settings", settings)
	}
}

func TestUninstallRemovesWhatInstallHasPut(t *testing.T) {
	for name, variables := range map[string][]string{
		"as it is":         nil,
		"below /usr/local": {"PREFIX=/usr/local"},
		"elsewhere":        {"BINDIR=/opt/bin", "LIBEXECDIR=/opt/hooks", "DATADIR=/opt/share"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImage(t, variables...)
			i.make("install")
			if len(i.files()) < 10 {
				t.Fatalf("install has put %q", i.files())
			}
			must.Equal(t, "what uninstall says", "", i.make("uninstall"))
			must.Equal(t, "what is there", []string(nil), i.files())
			i.make("uninstall") // again
		})
	}
}

// TestUninstallLeavesWhatInstallHasNotPut has a node with reports, a configuration and a site's
// file among the hooks. An install that was cut off left a temporary file.
func TestUninstallLeavesWhatInstallHasNotPut(t *testing.T) {
	i := newImage(t)
	left := []string{"/etc/hookhost/hookhost.toml", "/usr/libexec/hookhost/hooks/site",
		"/usr/share/hookhost/site.json", "/var/lib/hookhost/1"}
	for _, name := range append(slices.Clone(left), "/usr/bin/hookhost.new") {
		i.write(i.folder, name)
	}
	i.make("install")
	said := i.make("uninstall")
	files := slices.DeleteFunc(i.files(), func(name string) bool { return strings.HasSuffix(name, "/hookhost") })
	must.Equal(t, "what is left", left, files)
	for _, name := range left {
		if directory := filepath.Dir(name); !strings.Contains(said, "left: "+i.folder+directory+"\n") {
			t.Errorf("uninstall does not name %s: %s", directory, said)
		}
	}
}

// TestDaemonWithoutSystemdLeavesNoPIDFile runs the lines by which docs/openpbs.md starts and stops
// a daemon. The daemon is a script, which dies once.
func TestDaemonWithoutSystemdLeavesNoPIDFile(t *testing.T) {
	page, err := os.ReadFile("docs/openpbs.md")
	must.NoError(t, err)
	start := regexp.MustCompile(`(?s)    (setsid sh -c .*?&)\n`).FindSubmatch(page)
	stop := regexp.MustCompile("\\| stop \\|.*\\| `(pkill .*)` \\|\n").FindSubmatch(page)
	if start == nil || stop == nil {
		t.Fatal("the page has no such lines")
	}
	folder := t.TempDir()
	must.NoError(t, os.WriteFile(folder+"/hookhost", []byte("#!/bin/sh\n"+
		"[ -e died ] || { >died; exit 1; }\ntrap 'exit 0' TERM; >serves; while :; do sleep 0.1; done\n"), 0o755))
	places := strings.NewReplacer("/run/", folder+"/", "/var/log/", folder+"/")
	shell := func(line []byte) {
		t.Helper()
		cmd := exec.Command("sh", "-c", places.Replace(string(line)))
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(folder, name)); return err == nil }
	shell(start[1])
	must.Eventually(t, "a daemon again", func() bool { return exists("serves") && exists("hookhost.pid") })
	shell(stop[1])
	must.Eventually(t, "no pid file", func() bool { return !exists("hookhost.pid") })
}
