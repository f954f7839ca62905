package placement

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// docs/placement.md shows where jobs land; what it shows is what happens. The machine of its
// pictures is numbered here as x86 servers number their cpus and as QEMU does.
func TestPlacementIsAsThePageShows(t *testing.T) {
	page, err := os.ReadFile("../../docs/placement.md")
	must.NoError(t, err)
	rows := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		jobs := strings.Trim(cells[0], " `")
		if len(cells) != 5 || !strings.ContainsAny(jobs, "0123456789") {
			continue
		}
		rows++
		for i, req := range []Request{
			{}, {Policy: Spread}, {UseHyperthreads: true}, {UseHyperthreads: true, NCPUsAreCores: true},
		} {
			for name, node := range map[string]*topology.Node{
				"first threads first": shape{sockets: 2, nodes: 1, cores: 2, threads: 2}.build(),
				"core by core":        coreByCore(),
			} {
				if want, got := strings.Trim(cells[i+1], " `"),
					arrive(t, node, req, strings.Fields(jobs)); got != want {
					t.Errorf("jobs %s, %+v, numbered %s:\n got %s\npage %s", jobs, req, name, got, want)
				}
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows on the page", rows)
	}
}

// coreByCore is the machine of the page with its threads numbered core by core.
func coreByCore() *topology.Node {
	node := &topology.Node{Threads: 2}
	for id := range 8 {
		core := id &^ 1
		node.CPUs = append(node.CPUs,
			topology.CPU{ID: id, Core: core, Socket: id / 4, NUMA: id / 4, Siblings: kernfs.IDs(core, core+1)})
	}
	node.NUMA = []topology.NUMANode{{ID: 0, CPUs: kernfs.IDs(0, 1, 2, 3), HasMemory: true},
		{ID: 1, CPUs: kernfs.IDs(4, 5, 6, 7), HasMemory: true}}
	node.Online = kernfs.IDs(0, 1, 2, 3, 4, 5, 6, 7)
	return node
}

// arrive draws the machine after jobs of so many ncpus have come one after another. Each socket is
// in brackets, each core a word, each thread the letter of its job. "-N" is the end of the Nth job.
// A job that there is no room for is named behind.
func arrive(t *testing.T, node *topology.Node, req Request, jobs []string) string {
	t.Helper()
	held := map[int]kernfs.IDSet{}
	letters := map[int]string{}
	waiting, i := "", -1
	for _, word := range jobs {
		if gone, ok := strings.CutPrefix(word, "-"); ok {
			n, _ := strconv.Atoi(gone)
			delete(held, n-1)
			continue
		}
		i++
		req.NCPUs, _ = strconv.Atoi(word)
		req.Allowed, req.Taken = node.Online, kernfs.IDSet{}
		for _, cpus := range held {
			req.Taken = req.Taken.Union(cpus)
		}
		letter := string(rune('A' + i))
		got, err := Place(node, req)
		if short := (*ShortageError)(nil); errors.As(err, &short) {
			waiting += " " + letter + " waits"
			continue
		}
		must.NoError(t, err)
		held[i] = got.CPUs
		letters[i] = letter
	}
	return draw(node, held, letters) + waiting
}

func draw(node *topology.Node, held map[int]kernfs.IDSet, letters map[int]string) string {
	var b strings.Builder
	socket, core := -1, -1
	for _, c := range inPlace(node) {
		switch {
		case c.Socket != socket && socket >= 0:
			b.WriteString("] [")
		case socket < 0:
			b.WriteString("[")
		case c.Core != core:
			b.WriteString(" ")
		}
		socket, core = c.Socket, c.Core
		letter := "."
		for i, cpus := range held {
			if cpus.Has(c.ID) {
				letter = letters[i]
			}
		}
		fmt.Fprint(&b, letter)
	}
	return b.String() + "]"
}

// inPlace returns the cpus by socket, core and thread.
func inPlace(node *topology.Node) []topology.CPU {
	return ranked(node.CPUs, func(a, b topology.CPU) bool {
		if a.Socket != b.Socket {
			return a.Socket < b.Socket
		}
		if a.Core != b.Core {
			return a.Core < b.Core
		}
		return a.ID < b.ID
	})
}
