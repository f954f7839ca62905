package pbscgroups

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

const (
	docs       = "../../docs/openpbs-migration.md"
	tableBegin = "<!-- The table is made by: go test ./internal/pbscgroups -update -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

// The table of docs/openpbs-migration.md is what the import does, with a row for every key that the
// stock hook reads.
func TestImportIsAsTheMigrationPageSays(t *testing.T) {
	var b strings.Builder
	b.WriteString("| pbs_cgroups | hookhost | default | what differs |\n|---|---|---|---|\n")
	for _, k := range keys {
		if section, name, _ := strings.Cut(strings.TrimPrefix(k.name, "cgroup."), "."); strings.HasPrefix(k.name,
			"cgroup.") && (name == "mount_path" || slices.Contains(switches[1:], name)) {
			if section == "cpu" { // all sections have these
				ours, note := "`[…] enabled`", "of the section; the same order of evaluation"
				if name == "mount_path" {
					ours, note = "not needed", alwaysFound
				}
				fmt.Fprintf(&b, "| `cgroup.*.%s` | %s | %s | %s |\n", name, ours, shownDefault(k), note)
			}
			continue
		}
		ours := "not needed"
		if len(k.ours) > 0 {
			ours = "`" + strings.Join(k.ours, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, ours, shownDefault(k),
			strings.ReplaceAll(k.note, "|", `\|`))
	}
	text, err := os.ReadFile(docs)
	must.NoError(t, err)
	before, rest, found := strings.Cut(string(text), tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatalf("%s has no table", docs)
	}
	golden(t, docs, []byte(before+tableBegin+b.String()+tableEnd+after))
	for _, k := range keys {
		name := k.name
		if !strings.Contains(b.String(), "`"+name+"`") {
			_, last, _ := strings.Cut(strings.TrimPrefix(name, "cgroup."), ".")
			if name = "cgroup.*." + last; !strings.Contains(b.String(), "`"+name+"`") {
				t.Errorf("%s is not in the table", k.name)
			}
		}
	}
}

// shownDefault is the default of the stock code as the table has it.
func shownDefault(k key) string {
	if k.stock == "" {
		return ""
	}
	return "`" + k.stock + "`"
}
