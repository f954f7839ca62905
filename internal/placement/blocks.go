package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// Block is one of the equal parts into which a host is divided. Its number is its index in the
// result of Blocks.
type Block struct {
	CPUs    kernfs.IDSet // whole cores, or their first threads without UseHyperthreads
	Mems    kernfs.IDSet
	Devices []string     // IDs
	Mem     int64        // bytes
	NUMA    kernfs.IDSet // NUMA nodes of CPUs
	Sockets kernfs.IDSet
}

// Blocks divides node into n blocks with equal numbers of cores, devices of each model and bytes of
// memory. Place keeps each block in as small a part of the machine as possible. Of req, Blocks
// reads Allowed, UseHyperthreads, MemFences, Devices and Mem, the memory of all blocks together.
// Remaining cores and bytes belong to no block. Blocks fails if there are fewer than n cores, or if
// the devices of a model cannot be divided equally. A device that no job could get is a mistake, a
// core is not. The result depends only on the arguments, not on jobs.
func Blocks(node *topology.Node, req Request, n int) ([]Block, error) {
	if n < 1 {
		return nil, fmt.Errorf("cut node into %d blocks: not a number of 1 or more", n)
	}
	one := Request{
		Allowed: req.Allowed, UseHyperthreads: req.UseHyperthreads, NCPUsAreCores: true, MemFences: req.MemFences,
		Devices: req.Devices,
		Held:    map[string]int{},
	}
	cores := newMachine(node, one).free
	if cores < n {
		return nil, fmt.Errorf("cut node into %d blocks: it has %d cores", n, cores)
	}
	one.NCPUs = cores / n
	if err := one.divide(req.Devices, n); err != nil {
		return nil, fmt.Errorf("cut node into %d blocks: %w", n, err)
	}
	blocks := make([]Block, n)
	for i := range blocks {
		got, err := Place(node, one)
		if err != nil {
			return nil, fmt.Errorf("cut node into %d blocks: block %d: %w", n, i, err)
		}
		blocks[i] = Block{CPUs: got.CPUs, Mems: got.Mems, Devices: got.Devices, Mem: req.Mem / int64(n)}
		for _, cpu := range node.CPUs {
			if got.CPUs.Has(cpu.ID) {
				blocks[i].NUMA = blocks[i].NUMA.Union(kernfs.IDs(cpu.NUMA))
				blocks[i].Sockets = blocks[i].Sockets.Union(kernfs.IDs(cpu.Socket))
			}
		}
		one.Taken = one.Taken.Union(got.CPUs)
		for _, id := range got.Devices {
			one.Held[id]++
		}
	}
	return blocks, nil
}

// divide makes r request one of n equal parts of devices. Each model becomes a separate resource.
func (r *Request) divide(devices []topology.Device, n int) error {
	r.Devices = slices.Clone(devices)
	for i, d := range devices {
		kind := fmt.Sprintf("%s %s %s", d.Resource, d.Vendor, d.Model)
		r.Devices[i].Resource = kind
		at := slices.IndexFunc(r.Wants, func(w Want) bool { return w.Resource == kind })
		if at < 0 {
			at = len(r.Wants)
			r.Wants = append(r.Wants, Want{Resource: kind})
		}
		r.Wants[at].Count++
	}
	for i := range r.Wants {
		w := &r.Wants[i]
		if w.Count%n != 0 {
			return fmt.Errorf("its %d devices (%s) cannot be divided by %d", w.Count,
				strings.Join(strings.Fields(w.Resource), " "), n)
		}
		w.Count /= n
	}
	return nil
}

// ChooseBlocks returns the numbers of count blocks that are not in taken, ascending. It prefers
// blocks in keep, which the job already has, then blocks that are near to each other. Then it
// prefers blocks that are far from the remaining ones. ChooseBlocks fails with a *ShortageError.
func ChooseBlocks(blocks []Block, taken, keep []int, count int) ([]int, error) {
	if count < 0 {
		return nil, fmt.Errorf("choose blocks: %d", count)
	}
	var free []int
	for i := range blocks {
		if !slices.Contains(taken, i) {
			free = append(free, i)
		}
	}
	if count > len(free) {
		return nil, &ShortageError{Resource: "blocks", Want: int64(count), Have: int64(len(free))}
	}
	near := neighbours(blocks, free)
	set := search(free, count, mostSteps, func(set []int) score {
		var s score
		for k, i := range set {
			s[0] += int64(missing(keep, i))
			for _, j := range set[:k] {
				s[1] += near[i][j]
			}
			s[2] -= near[i][i]
		}
		s[2] -= 2 * s[1]
		return s
	}, func([]int) bool { return true })
	if set == nil { // too many blocks to compare
		slices.SortStableFunc(free, func(a, b int) int {
			return cmp.Compare(missing(keep, a), missing(keep, b))
		})
		return slices.Sorted(slices.Values(free[:count])), nil
	}
	return set, nil
}

// missing returns 1 if n is not in list, else 0.
func missing(list []int, n int) int {
	if slices.Contains(list, n) {
		return 0
	}
	return 1
}

// neighbours returns the distance between any two blocks of free: 0 if they share a NUMA node, 1 if
// they share a socket, otherwise 2. The entry of a block with itself is the sum of its distances to
// the others.
func neighbours(blocks []Block, free []int) [][]int64 {
	far := make([][]int64, len(blocks))
	for _, i := range free {
		far[i] = make([]int64, len(blocks))
		for _, j := range free {
			a, b := blocks[i], blocks[j]
			switch {
			case i == j:
				continue
			case a.Sockets.Intersect(b.Sockets).IsEmpty():
				far[i][j] = 2
			case a.NUMA.Intersect(b.NUMA).IsEmpty():
				far[i][j] = 1
			}
			far[i][i] += far[i][j]
		}
	}
	return far
}
