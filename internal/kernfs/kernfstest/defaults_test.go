package kernfstest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// TestNewCgroupReadsAsOnTheKernel compares the files of a new cgroup that the fake and the running
// kernel both have. Texts are alike, line by line where a line has a key.
func TestNewCgroupReadsAsOnTheKernel(t *testing.T) {
	for version, worlds := range map[string]struct {
		fake, kernel func(*testing.T) *world
		controllers  []string
	}{
		"v1": {fakeV1, kernelV1, v1Controllers},
		"v2": {fakeV2, kernelV2, []string{"v2"}},
	} {
		t.Run(version, func(t *testing.T) {
			kernel, fake := worlds.kernel(t), worlds.fake(t)
			kernel.begin(t, worlds.controllers...)
			fake.begin(t, worlds.controllers...)
			for _, c := range worlds.controllers {
				want, got := newCgroupTexts(t, kernel, c), newCgroupTexts(t, fake, c)
				for name, text := range got {
					if _, ok := want[name]; !ok {
						delete(got, name)
						continue
					}
					got[name], want[name] = commonLines(text, want[name]), commonLines(want[name], text)
				}
				for name := range want {
					if _, ok := got[name]; !ok {
						delete(want, name)
					}
				}
				must.Equal(t, fmt.Sprintf("%s (-kernel +fake)", c), want, got)
			}
		})
	}
}

// newCgroupTexts returns the text of each file of a new cgroup; "" of those that cannot be read.
func newCgroupTexts(t *testing.T, w *world, controller string) map[string]string {
	t.Helper()
	dir := w.file(controller + "/new")
	if err := w.cgroup.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) { // cpu and cpuacct may be one
		t.Fatal(err)
	}
	return readAll(t, w.cgroup, dir)
}

// commonLines returns the lines of a that begin with a word that one of b begins with.
func commonLines(a, b string) string {
	var c strings.Builder
	for line := range strings.Lines(a) {
		key, _, _ := strings.Cut(line, " ")
		if key == line || strings.HasPrefix(b, key+" ") || strings.Contains(b, "\n"+key+" ") {
			c.WriteString(line)
		}
	}
	return c.String()
}

func readAll(t *testing.T, cgroup *kernfs.FS, dir string) map[string]string {
	t.Helper()
	f, err := cgroup.OpenFile(dir, unix.O_RDONLY)
	must.NoError(t, err)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	must.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := cgroup.ReadFile(path.Join(dir, e.Name()))
		unreadable := errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrPermission) ||
			errors.Is(err, unix.EOPNOTSUPP) // pressure files of an older kernel with psi=0
		if err != nil && !unreadable {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// TestEachFileOfTheFakeIsNamedByOtherCode holds that the fake models no interface file that nothing
// but tests reads or writes.
func TestEachFileOfTheFakeIsNamedByOtherCode(t *testing.T) {
	if _, err := os.Stat("../../../go.mod"); err != nil {
		Elsewhere(t, "the test is away from its sources")
	}
	literals := codeLiterals(t, "../../..")
	for _, version := range []struct {
		core         []knob
		byController map[string][]knob
	}{{v1Core, v1Knobs}, {v2Core, v2Knobs}} {
		tables := [][]knob{version.core}
		for _, table := range version.byController {
			tables = append(tables, table)
		}
		for _, table := range tables {
			for _, kn := range table {
				name := kn.name
				// Names of huge pages' files are put together: the page size, "rsvd.", the rest.
				if rest, ok := strings.CutPrefix(name, "hugetlb.2MB."); ok {
					name = strings.TrimPrefix(rest, "rsvd.")
				}
				if !literals[name] && !literals["."+name] {
					t.Errorf("%s: no code outside of tests names it", kn.name)
				}
			}
		}
	}
}

// codeLiterals returns the strings in the code below root, apart from tests and this package.
func codeLiterals(t *testing.T, root string) map[string]bool {
	literals := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "kernfstest" || strings.HasPrefix(e.Name(), ".") && file != root):
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					literals[text] = true
				}
			}
			return true
		})
		return nil
	})
	must.NoError(t, err)
	return literals
}
