package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

const (
	cpuDir  = "devices/system/cpu"
	nodeDir = "devices/system/node"
)

// Scan reads the machine's topology below roots.Sys and roots.Proc. It is not an error if a kernel
// lacks a file. It is one if a file exists but cannot be read or parsed, and if there is no cpu or
// no MemTotal.
func Scan(roots kernfs.Roots) (*Node, error) {
	node := &Node{}
	err := node.readTotals(roots.Proc)
	if err != nil {
		return nil, fmt.Errorf("scan topology: %w", err)
	}
	if node.Online, err = readList(roots.Sys, cpuDir+"/online", cpuDir, "cpu"); err != nil {
		return nil, fmt.Errorf("scan topology: %w", err)
	}
	if node.Online.IsEmpty() {
		return nil, fmt.Errorf("scan topology: no cpu in %s", roots.Sys.Path(cpuDir))
	}
	if node.NUMA, err = readNUMA(roots.Sys, node); err != nil {
		return nil, fmt.Errorf("scan topology: %w", err)
	}
	if node.CPUs, err = readCPUs(roots.Sys, node); err != nil {
		return nil, fmt.Errorf("scan topology: %w", err)
	}
	for _, cpu := range node.CPUs {
		node.Threads = max(node.Threads, cpu.Siblings.Len())
	}
	return node, nil
}

// Again returns n if its totals of memory, swap and tasks still match the kernel's, otherwise a new
// Scan. On a running machine, memory may be added, swap turned on and pid_max set.
func (n *Node) Again(roots kernfs.Roots) (*Node, error) {
	var now Node
	if err := now.readTotals(roots.Proc); err != nil {
		return nil, fmt.Errorf("scan topology: %w", err)
	}
	if now.MemTotal == n.MemTotal && now.SwapTotal == n.SwapTotal && now.Tasks == n.Tasks {
		return n, nil
	}
	return Scan(roots)
}

// readCPUs returns the online cpus; node.Online and node.NUMA are known.
func readCPUs(sys *kernfs.FS, node *Node) ([]CPU, error) {
	numa := map[int]int{}
	for _, n := range node.NUMA {
		for _, id := range n.CPUs.List() {
			numa[id] = n.ID
		}
	}
	cpus := make([]CPU, 0, node.Online.Len())
	for _, id := range node.Online.List() {
		dir := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, id)
		siblings, err := sys.IDSet(dir + "thread_siblings_list")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// While a cpu goes offline or online, it is missing from its own list.
		siblings = siblings.Intersect(node.Online).Union(kernfs.IDs(id))
		socket, err := readID(sys, dir+"physical_package_id")
		if err != nil {
			return nil, err
		}
		cpus = append(cpus, CPU{ID: id, Core: siblings.List()[0], Socket: socket, NUMA: numa[id], Siblings: siblings})
	}
	return cpus, nil
}

// readNUMA returns the NUMA nodes. A kernel without NUMA has one: node 0.
func readNUMA(sys *kernfs.FS, node *Node) ([]NUMANode, error) {
	ids, err := readList(sys, nodeDir+"/online", nodeDir, "node")
	if err != nil {
		return nil, err
	}
	if ids.IsEmpty() {
		return []NUMANode{{CPUs: node.Online, MemTotal: node.MemTotal, HasMemory: true}}, nil
	}
	withMemory, err := sys.IDSet(nodeDir + "/has_memory")
	knowsMemory := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	nodes := make([]NUMANode, 0, ids.Len())
	rest := node.Online
	for _, id := range ids.List() {
		n := NUMANode{ID: id}
		dir := fmt.Sprintf("%s/node%d/", nodeDir, id)
		cpus, err := sys.IDSet(dir + "cpulist")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		n.CPUs = cpus.Intersect(rest)
		rest = rest.Minus(n.CPUs)
		total, _, err := readTotals(sys, dir+"meminfo")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		n.MemTotal = total
		n.HasMemory = total > 0 || err != nil // an unknown amount is no reason to leave out a node
		if knowsMemory {
			n.HasMemory = withMemory.Has(id)
		}
		nodes = append(nodes, n)
	}
	nodes[0].CPUs = nodes[0].CPUs.Union(rest)
	if len(nodes) == 1 {
		// If the kernel initializes memory lazily, the node counts only the memory initialized so
		// far.
		nodes[0].MemTotal = node.MemTotal
	}
	return nodes, nil
}

// readList reads the list file name. If there is none, it lists the directories prefixN in dir.
func readList(sys *kernfs.FS, name, dir, prefix string) (kernfs.IDSet, error) {
	ids, err := sys.IDSet(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return ids, err
	}
	names, err := sys.Dirs(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return kernfs.IDSet{}, err
	}
	var found []int
	for _, entry := range names {
		if number, ok := strings.CutPrefix(entry, prefix); ok {
			if id, err := strconv.ParseUint(number, 10, 16); err == nil {
				found = append(found, int(id))
			}
		}
	}
	return kernfs.IDs(found...), nil
}

// readID reads a file with one number. A missing file counts as 0, and so does -1, which the kernel
// writes for "unknown".
func readID(sys *kernfs.FS, name string) (int, error) {
	b, err := sys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(b))
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, &kernfs.ParseError{File: sys.Path(name), Text: text, Err: err}
	}
	return max(int(id), 0), nil
}
