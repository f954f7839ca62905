package pbscgroups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tables are those of hookhost.toml that something is imported into, in its order.
var tables = []string{
	"host", "cgroup", "vnodes", "cpu", "cpuset", "memory", "memsw", "hugetlb", "pids", "blkio", "net_cls", "net_prio",
	"perf_event", "rdma", "devices",
}

const preamble = `# Made by "hookhost config import" from a configuration of OpenPBS's hook pbs_cgroups.
# Behind each setting is the key that it comes from. docs/openpbs-migration.md tells what differs.
# Tables that are not here have what the stock hook does not: [walltime], [mpi], [rlimits] and others, see "hookhost config show".
`

// toml writes what was collected, with what was refused as comments.
func (i *importer) toml(keys []Key) []byte {
	var b strings.Builder
	b.WriteString(preamble)
	for _, k := range keys {
		if k.Became == Refused {
			fmt.Fprintf(&b, "# Refused: line %d: %s = %s: %s\n", k.Line, k.Key, comment(k.Value), comment(k.Why))
		}
	}
	for _, table := range tables {
		var lines []string
		for _, ours := range order() {
			section, name, _ := strings.Cut(ours, ".")
			if value, made := i.values[ours]; made && section == table {
				line := name + " = " + value
				if from := i.from[ours]; len(from) > 0 {
					line += " # " + strings.Join(from, ", ")
				}
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n[%s]\n%s\n", table, strings.Join(lines, "\n"))
		}
	}
	return []byte(b.String())
}

// comment makes a text fit for a line of comment.
func comment(text string) string {
	const most = 200
	runes := []rune(text)
	for i, r := range runes {
		if !strconv.IsPrint(r) {
			runes[i] = ' '
		}
	}
	if len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return string(runes)
}

// order returns the keys of hookhost.toml that something is imported into: switches first, as
// hookhost.toml has them.
func order() []string {
	var all []string
	for _, switches := range []bool{true, false} {
		for _, k := range keys {
			for _, ours := range k.ours {
				if strings.HasSuffix(ours, ".enabled") == switches && !slices.Contains(all, ours) {
					all = append(all, ours)
				}
			}
		}
	}
	return all
}
