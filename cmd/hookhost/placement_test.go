package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// thread is a cpu of this machine, as the kernel tells it.
type thread struct{ socket, core, id int }

// threads returns this machine's cpus by socket, core and number.
func threads(t *testing.T) []thread {
	t.Helper()
	number := func(path string) int {
		b, err := os.ReadFile(path)
		must.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must.NoError(t, err)
		return n
	}
	var all []thread
	dirs, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology")
	for _, dir := range dirs {
		id, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "cpu"))
		all = append(all, thread{number(dir + "/physical_package_id"), number(dir + "/core_id"), id})
	}
	slices.SortFunc(all, func(a, b thread) int {
		return slices.Compare([]int{a.socket, a.core, a.id}, []int{b.socket, b.core, b.id})
	})
	return all
}

// isOfThePage reports whether this is the machine of docs/placement.md: two sockets of two cores of
// two threads.
func isOfThePage(all []thread) bool {
	for i, a := range all {
		if len(all) != 8 || i%4 != 0 && a.socket != all[i-1].socket || i%2 != 0 && a.core != all[i-1].core || i == 4 &&
			a.socket == all[3].socket ||
			i%4 == 2 && a.core == all[i-1].core {
			return false
		}
	}
	return true
}

// Jobs land where docs/placement.md draws them, on a machine of that kind.
func TestPlacementPage(t *testing.T) {
	all := threads(t)
	if !isOfThePage(all) {
		kernfstest.Elsewhere(t, "2 sockets of 2 cores of 2 threads: this machine has %v", all)
	}
	page, err := os.ReadFile("../../docs/placement.md")
	must.NoError(t, err)
	for column, config := range []string{
		"", "placement = \"spread\"", "use_hyperthreads = true", "use_hyperthreads = true\nncpus_are_cores = true",
	} {
		t.Run(strings.ReplaceAll(config, "\n", ", "), func(t *testing.T) {
			n := newNode(t, "[cpuset]\n"+config)
			n.serve()
			for i, line := range strings.Split(string(page), "\n") {
				cells := strings.Split(strings.Trim(line, "|"), "|")
				jobs := strings.Trim(cells[0], " `")
				if len(cells) != 5 || !strings.ContainsAny(jobs, "0123456789") {
					continue
				}
				want := strings.Trim(cells[column+1], " `")
				if got := arrive(n, all, i, strings.Fields(jobs)); got != want {
					t.Errorf("jobs %s:\n got %s\npage %s", jobs, got, want)
				}
			}
		})
	}
}

// arrive begins jobs of so many ncpus, ends the Nth at "-N", and draws which thread is whose; then
// it ends all.
func arrive(n *node, all []thread, row int, words []string) string {
	n.t.Helper()
	id := func(job int) string { return fmt.Sprintf("%d%02d.node", row+1, job) }
	owner := map[int]string{} // by cpu
	letters := map[int]string{}
	waiting, job := "", -1
	for _, word := range words {
		if gone, ok := strings.CutPrefix(word, "-"); ok {
			which, _ := strconv.Atoi(gone)
			n.event("execjob_end", id(which-1), "")
			for cpu, letter := range owner {
				if letter == letters[which-1] {
					delete(owner, cpu)
				}
			}
			continue
		}
		job++
		letters[job] = string(rune('A' + job))
		r := n.eventOf("execjob_begin", id(job), `"ncpus":`+word, "")
		if r.status == 1 && strings.Contains(r.stdout, "exceeds ncpus available") {
			waiting += " " + letters[job] + " waits"
			continue
		}
		var out struct{ Usage struct{ CPUs string } }
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || r.status != 0 {
			n.t.Fatalf("begin: status %d, %q", r.status, r.stdout)
		}
		for _, cpu := range listOf(out.Usage.CPUs) {
			owner[cpu] = letters[job]
		}
	}
	for i := range job + 1 {
		n.event("execjob_end", id(i), "")
	}
	var b strings.Builder
	for i, c := range all {
		switch {
		case i == 0:
			b.WriteString("[")
		case i%4 == 0:
			b.WriteString("] [")
		case i%2 == 0:
			b.WriteString(" ")
		}
		if letter, taken := owner[c.id]; taken {
			b.WriteString(letter)
		} else {
			b.WriteString(".")
		}
	}
	return b.String() + "]" + waiting
}

// listOf parses the kernel's list format.
func listOf(list string) []int {
	var ids []int
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		to := from
		if isRange {
			to, _ = strconv.Atoi(high)
		}
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}
