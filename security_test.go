package hookhost_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var play = flag.Bool("attacks", false, "play the attacks of docs/attacks.md and print what became of each")

// attack is a row of a table of docs/attacks.md.
type attack struct {
	row, protection, cell string
	tests                 []namedTest
}

type namedTest struct{ dir, name string }

// attacks reads the tables of attacks. Each row says what protects and names tests of ours, and no
// test is named elsewhere.
func attacks(t *testing.T) (found []attack) {
	t.Helper()
	page, err := os.ReadFile("docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, within := map[string]bool{}, false
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			within = false
		case slices.Equal(cells, []string{"attack", "what protects", "test"}):
			within = true
			continue
		}
		switch {
		case strings.HasPrefix(line, "|---"):
		case within && (len(cells) != 3 || cells[1] == "" || rows[cells[0]]):
			t.Errorf("not one row of three cells: %s", line)
		case within:
			a := attack{row: cells[0], protection: cells[1], cell: cells[2]}
			for _, match := range named.FindAllStringSubmatch(a.cell, -1) {
				a.tests = append(a.tests, namedTest{match[2], match[1]})
			}
			rows[a.row] = true
			found = append(found, a)
		case named.MatchString(line):
			t.Errorf("a test outside of the tables: %s", line)
		}
	}
	return found
}

// TestSecurityPageNamesTestsThatExist plays them, too, if asked to.
func TestSecurityPageNamesTestsThatExist(t *testing.T) {
	ours, found := testNames(t), attacks(t)
	for _, a := range found {
		wantTests(t, ours, a.row, a.cell)
	}
	if len(found) == 0 {
		t.Error("no attacks")
	}
	if *play {
		playAttacks(t, found)
	}
}

// Results of an attack. Its tests have passed, have failed, or are for another place,
// such as a guest or a real OpenPBS.
const (
	refused   = "refused"
	open      = "OPEN"
	elsewhere = "elsewhere"
)

// playAttacks is `make attacks`: it runs the tests that the page names and no others, and prints
// the tables with what became of each attack.
func playAttacks(t *testing.T, found []attack) {
	t.Helper()
	wanted := map[string][]string{}
	for _, a := range found {
		for _, test := range a.tests {
			wanted[test.dir] = append(wanted[test.dir], test.name)
		}
	}
	became := map[namedTest]string{}
	for _, dir := range slices.Sorted(maps.Keys(wanted)) {
		maps.Copy(became, results(t, dir, wanted[dir]))
	}
	counts := map[string]int{}
	fmt.Println("| attack | what protects | test | result |\n|---|---|---|---|")
	for _, a := range found {
		result := a.result(became)
		counts[result]++
		fmt.Printf("| %s | %s | %s | %s |\n", a.row, a.protection, a.cell, result)
	}
	fmt.Printf("\n%d attacks: %d refused, %d open, %d elsewhere; %d tests\n", len(found), counts[refused], counts[open],
		counts[elsewhere], len(became))
	if counts[open] > 0 {
		t.Errorf("%d attacks are not refused", counts[open])
	}
}

// result is the worst of its tests that ran here.
func (a attack) result(became map[namedTest]string) string {
	result := elsewhere
	for _, test := range a.tests {
		switch became[test] {
		case "pass":
			if result == elsewhere {
				result = refused
			}
		case "skip":
		default: // it failed, or its package did before it ran
			result = open
		}
	}
	return result
}

// results runs tests of a directory and returns what became of each. Tests of lab/openpbs need what
// this machine need not have.
func results(t *testing.T, dir string, names []string) map[namedTest]string {
	t.Helper()
	became := map[namedTest]string{}
	if dir == "lab/openpbs" {
		for _, name := range names {
			became[namedTest{dir, name}] = "skip"
		}
		return became
	}
	slices.Sort(names)
	var tests, scripts []string
	for _, name := range slices.Compact(names) {
		if script, is := strings.CutPrefix(name, "TestScript/"); is {
			scripts = append(scripts, script)
		} else {
			tests = append(tests, name)
		}
	}
	patterns := []string{"^(" + strings.Join(tests, "|") + ")$"}
	if len(scripts) > 0 {
		patterns = append(patterns, "^TestScript$/^("+strings.Join(scripts, "|")+")$")
	}
	var out []byte
	for _, pattern := range patterns {
		cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=20m", "-run="+pattern, "./"+dir)
		events, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		out = append(out, events...)
	}
	said := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v in %s", dir, err, out)
			}
			break
		}
		switch event.Action {
		case "output":
			said[event.Test] += event.Output
		case "pass", "skip", "fail":
			became[namedTest{dir, event.Test}] = event.Action
			if event.Action == "fail" && event.Test != "" {
				t.Logf("%s in %s:\n%s", event.Test, dir, said[event.Test])
			}
		}
	}
	maps.DeleteFunc(became, func(test namedTest, _ string) bool { return !slices.Contains(names, test.name) })
	return became
}
