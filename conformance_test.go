package hookhost_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConformancePageNamesTestsThatExist reads the table of docs/openpbs-conformance.md. Each of
// OpenPBS's tests has one row, and each test of ours in it is one of the directory that the row
// names.
func TestConformancePageNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("docs/openpbs-conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	ours := testNames(t)
	rows := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `test_") {
			continue
		}
		if len(cells) != 4 || rows[cells[0]] {
			t.Errorf("not one row of four cells: %s", line)
			continue
		}
		rows[cells[0]] = true
		wantTests(t, ours, cells[0], cells[2])
		if result := cells[3]; !strings.HasPrefix(result, "pass") && !strings.HasPrefix(result, "does not apply: ") {
			t.Errorf("%s: result %q", cells[0], result)
		}
	}
	if len(rows) != 56 {
		t.Errorf("%d rows, and OpenPBS has 56 tests", len(rows))
	}
}

// named is how a page names a test: by its function and its directory.
var named = regexp.MustCompile("`((?:Test|Fuzz)\\w+(?:/[\\w-]+)?)` in ([\\w/]+)")

// wantTests fails where a cell of a page names no test, or names one that is not in its directory.
func wantTests(t *testing.T, ours map[string]bool, row, cell string) {
	t.Helper()
	tests := named.FindAllStringSubmatch(cell, -1)
	if len(tests) == 0 || len(tests) != strings.Count(cell, "`Test")+strings.Count(cell, "`Fuzz") {
		t.Errorf("%s: no test, or one without its directory, in %q", row, cell)
	}
	for _, name := range tests {
		if !ours[name[2]+" "+name[1]] {
			t.Errorf("%s: there is no %s in %s", row, name[1], name[2])
		}
	}
}

// testNames are the tests of the tree, "DIRECTORY NAME", whatever their build tags. A script of
// testdata/script is TestScript/NAME.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\([tf] \*testing\.[TF]\)`)
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if dir, name := filepath.Split(path); strings.HasSuffix(dir, "/testdata/script/") {
			names[strings.TrimSuffix(dir, "/testdata/script/")+" TestScript/"+strings.TrimSuffix(name, ".txtar")] = true
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(b, -1) {
			names[filepath.ToSlash(filepath.Dir(path))+" "+string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
