package placement

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// deviceJob is a word of the page's tables of devices. "4+1" is a job of 4 cpus and a GPU, "2b" a
// job of 2 blocks. "-1" is the end of the first job, "1:4+2" its new size.
var deviceJob = regexp.MustCompile(`^(?:-(\d+)|(?:(\d+):)?(?:(\d+)\+(\d+)|(\d+)b))$`)

// pageGPUs are the GPUs of the page: four next to each of two NUMA nodes, in linked pairs.
func pageGPUs() []topology.Device {
	return linked(gpus(0, 0, 0, 0, 1, 1, 1, 1), 4, []int{0, 1}, []int{2, 3}, []int{4, 5}, []int{6, 7})
}

// docs/placement.md shows which GPUs jobs get; what it shows is what happens.
func TestPageOfDevices(t *testing.T) {
	page, err := os.ReadFile("../../docs/placement.md")
	must.NoError(t, err)
	rows := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		jobs := strings.Fields(cells[0])
		if len(cells) == 5 || len(jobs) == 0 ||
			slices.ContainsFunc(jobs, func(job string) bool { return !deviceJob.MatchString(job) }) {
			continue
		}
		rows++
		for i, want := range cells[1:] {
			if got := arriveWithDevices(t, Policy(i), jobs); got != want {
				t.Errorf("jobs %s, policy %d:\n got %s\npage %s", cells[0], Policy(i), got, want)
			}
		}
	}
	if rows < 15 {
		t.Errorf("%d rows on the page", rows)
	}
}

// arriveWithDevices draws the machine after jobs have come one after another. Brackets hold a NUMA
// node, its cores and its GPUs.
func arriveWithDevices(t *testing.T, policy Policy, words []string) string {
	t.Helper()
	node := shape{sockets: 2, nodes: 1, cores: 8, threads: 1}.build()
	blocks, err := Blocks(node, Request{Allowed: node.Online, Devices: pageGPUs()}, 4)
	must.NoError(t, err)
	held := map[int]Assignment{}
	numbers := map[int][]int{} // of blocks
	waiting, jobs := "", 0
	for _, word := range words {
		m := deviceJob.FindStringSubmatch(word)
		number := func(i int) int { n, _ := strconv.Atoi(m[i]); return n }
		if m[1] != "" {
			delete(held, number(1)-1)
			delete(numbers, number(1)-1)
			continue
		}
		job := number(2) - 1
		if job < 0 {
			job, jobs = jobs, jobs+1
		}
		req := Request{
			NCPUs: number(3), Allowed: node.Online, Policy: policy, Devices: pageGPUs(), Held: map[string]int{},
			Wants: anyGPU(number(4)),
			Keep:  held[job].CPUs, KeepDevices: held[job].Devices,
		}
		var taken []int
		for i, other := range held {
			if i == job {
				continue
			}
			req.Taken = req.Taken.Union(other.CPUs)
			taken = append(taken, numbers[i]...)
			for _, id := range other.Devices {
				req.Held[id]++
			}
		}
		var got Assignment
		if m[5] == "" {
			got, err = Place(node, req)
		} else if numbers[job], err = ChooseBlocks(blocks, taken, numbers[job], number(5)); err == nil {
			got = union(blocks, numbers[job])
		}
		switch short := (*ShortageError)(nil); {
		case errors.As(err, &short):
			waiting += " " + string(rune('A'+job)) + " waits"
		case err != nil:
			t.Fatal(err)
		default:
			held[job] = got
		}
	}
	return drawWithDevices(node, held) + waiting
}

// union is what a job of these blocks has.
func union(blocks []Block, numbers []int) Assignment {
	var a Assignment
	for _, i := range numbers {
		a.CPUs, a.Devices = a.CPUs.Union(blocks[i].CPUs), append(a.Devices, blocks[i].Devices...)
	}
	return a
}

func drawWithDevices(node *topology.Node, held map[int]Assignment) string {
	letter := func(has func(Assignment) bool) byte {
		for i, a := range held {
			if has(a) {
				return byte('A' + i)
			}
		}
		return '.'
	}
	var parts []string
	for _, numa := range node.NUMA {
		var b strings.Builder
		for _, cpu := range numa.CPUs.List() {
			b.WriteByte(letter(func(a Assignment) bool { return a.CPUs.Intersect(kernfs.IDs(cpu)).Len() > 0 }))
		}
		b.WriteByte(' ')
		for _, d := range pageGPUs() {
			if d.NUMA == numa.ID {
				b.WriteByte(letter(func(a Assignment) bool { return slices.Contains(a.Devices, d.ID) }))
			}
		}
		parts = append(parts, "["+b.String()+"]")
	}
	return strings.Join(parts, " ")
}
