package placement

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// drawn writes blocks as "cpus/devices".
func drawn(blocks []Block) string {
	var words []string
	for _, b := range blocks {
		words = append(words, b.CPUs.String()+"/"+strings.Join(b.Devices, ","))
	}
	return strings.Join(words, " ")
}

func TestBlocksAreEqual(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape shape
		gpus  []int // their NUMA nodes
		req   Request
		allow string
		n     int
		want  string
		err   string
	}{
		{name: "a GPU each", shape: shape{2, 1, 4, 1, 0}, gpus: []int{0, 0, 0, 0, 1, 1, 1, 1}, n: 8,
			want: "0/g0 1/g1 2/g2 3/g3 4/g4 5/g5 6/g6 7/g7"},
		{name: "two GPUs each", shape: shape{2, 1, 4, 1, 0}, gpus: []int{0, 0, 0, 0, 1, 1, 1, 1}, n: 4,
			want: "0-1/g0,g1 2-3/g2,g3 4-5/g4,g5 6-7/g6,g7"},
		{name: "GPUs in turn", shape: shape{2, 1, 4, 1, 0}, gpus: []int{1, 0, 1, 0}, n: 2, want: "4-7/g0,g2 0-3/g1,g3"},
		{name: "one over two nodes", shape: shape{2, 1, 3, 1, 0}, gpus: []int{0, 0, 0, 1, 1, 1}, n: 3,
			want: "0-1/g0,g1 3-4/g3,g4 2,5/g2,g5"},
		{name: "what is left over", shape: shape{2, 1, 5, 1, 0}, n: 4, want: "0-1/ 2-3/ 5-6/ 7-8/"},
		{name: "first threads", shape: shape{2, 1, 2, 2, 0}, n: 2, want: "0-1/ 2-3/"},
		{name: "whole cores", shape: shape{2, 1, 2, 2, 0}, req: Request{UseHyperthreads: true}, n: 2,
			want: "0-1,4-5/ 2-3,6-7/"},
		{name: "not allowed", shape: shape{2, 1, 4, 1, 0}, allow: "1-7", n: 2, want: "1-3/ 4-6/"},
		{name: "one", shape: shape{2, 1, 1, 1, 0}, gpus: []int{0, 1}, n: 1, want: "0-1/g0,g1"},
		{name: "none", shape: single, n: 0, err: "cut node into 0 blocks: not a number of 1 or more"},
		{name: "more than cores", shape: single, n: 3, err: "cut node into 3 blocks: it has 2 cores"},
		{name: "a device too many", shape: smt, gpus: []int{0, 0, 0}, n: 2,
			err: "cut node into 2 blocks: its 3 devices (ngpus nvidia NVIDIA A100-SXM4-40GB) cannot be divided by 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := tt.shape.build()
			tt.req.Allowed, tt.req.Devices, tt.req.Mem = node.Online, gpus(tt.gpus...), 1000
			if tt.allow != "" {
				tt.req.Allowed = ids(t, tt.allow)
			}
			got, err := Blocks(node, tt.req, tt.n)
			if drawn(got) != tt.want || errorText(err) != tt.err {
				t.Errorf("%s, %v, want %s, %s", drawn(got), err, tt.want, tt.err)
			}
			for i, b := range got {
				if b.Mem != 1000/int64(tt.n) || b.NUMA.IsEmpty() || b.Sockets.IsEmpty() ||
					!b.Mems.Equal(kernfs.IDs(list(len(node.NUMA))...)) {
					t.Errorf("block %d: %+v", i, b)
				}
			}
		})
	}
}

func list(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Models that begin alike are no reason to give one block more of one of them.
func TestBlocksHaveEqualModels(t *testing.T) {
	node := shape{2, 1, 4, 1, 0}.build()
	devices := gpus(0, 0, 1, 1)
	devices[1].Model += " PRO"
	devices[2].Model += " PRO"
	blocks, err := Blocks(node, Request{Allowed: node.Online, Devices: devices}, 2)
	if err != nil || drawn(blocks) != "0-3/g0,g1 4-7/g2,g3" {
		t.Errorf("%s, %v", drawn(blocks), err)
	}
}

func TestChooseBlocks(t *testing.T) {
	node := shape{2, 2, 2, 1, 0}.build()
	blocks, err := Blocks(node, Request{Allowed: node.Online, MemFences: true}, 8)
	must.NoError(t, err)
	if mems := blocks[2].Mems.String(); mems != "1" {
		t.Errorf("block 2 has the memory of NUMA nodes %s, want 1", mems)
	}
	for _, tt := range []struct {
		name        string
		taken, keep []int
		count       int
		want, err   string
	}{
		{name: "none", count: 0, want: "[]"},
		{name: "first", count: 1, want: "[0]"},
		{name: "fills a NUMA node", count: 1, taken: []int{2}, want: "[3]"},
		{name: "fills a socket", count: 1, taken: []int{4, 5, 6}, want: "[7]"},
		{name: "one NUMA node", count: 2, taken: []int{0}, want: "[2 3]"},
		{name: "one socket", count: 4, taken: []int{1}, want: "[4 5 6 7]"},
		{name: "three of a socket", count: 3, taken: []int{1, 6}, want: "[0 2 3]"},
		{name: "all", count: 8, want: "[0 1 2 3 4 5 6 7]"},
		{name: "grows", count: 2, keep: []int{5}, want: "[4 5]"},
		{name: "shrinks", count: 2, keep: []int{1, 6, 7}, want: "[6 7]"},
		{name: "too many", count: 3, taken: []int{0, 1, 2, 3, 4, 5},
			err: "blocks requested (3) exceeds blocks available (2)", want: "[]"},
		{name: "negative", count: -1, err: "choose blocks: -1", want: "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ChooseBlocks(blocks, tt.taken, tt.keep, tt.count)
			if fmt.Sprint(got) != tt.want || errorText(err) != tt.err {
				t.Errorf("%v, %v, want %s, %s", got, err, tt.want, tt.err)
			}
			var short *ShortageError
			if tt.err != "" && tt.count > 0 && (!errors.As(err, &short) || short.Resource != "blocks") {
				t.Errorf("%#v, want a shortage of blocks", err)
			}
		})
	}
}

// gpus returns GPUs g0, g1 and so on next to these NUMA nodes, without links.
func gpus(numa ...int) []topology.Device {
	var devices []topology.Device
	for i, at := range numa {
		devices = append(devices, topology.Device{ID: fmt.Sprintf("g%d", i), Resource: "ngpus", Vendor: "nvidia",
			Model: "NVIDIA A100-SXM4-40GB", Memory: 40960 << 20, Index: i, NUMA: at})
	}
	return devices
}

// linked links each of groups with n links between any two.
func linked(devices []topology.Device, n int, groups ...[]int) []topology.Device {
	for _, group := range groups {
		for _, i := range group {
			for _, j := range group {
				if i == j {
					continue
				}
				if devices[i].Links == nil {
					devices[i].Links = map[string]int{}
				}
				devices[i].Links[devices[j].ID] = n
			}
		}
	}
	return devices
}
