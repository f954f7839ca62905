package hookhost_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSecurityPageNamesTestsThatExist reads the tables of attacks in docs/security.md. Each row
// says what protects and names tests of ours, and no test is named elsewhere.
func TestSecurityPageNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, attacks, within := testNames(t), map[string]bool{}, false
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
		case within && (len(cells) != 3 || cells[1] == "" || attacks[cells[0]]):
			t.Errorf("not one row of three cells: %s", line)
		case within:
			attacks[cells[0]] = true
			wantTests(t, ours, cells[0], cells[2])
		case named.MatchString(line):
			t.Errorf("a test outside of the tables: %s", line)
		}
	}
	if len(attacks) == 0 {
		t.Error("no attacks")
	}
}
