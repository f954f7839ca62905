package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

func anyGPU(n int) []Want { return []Want{{Resource: "ngpus", Count: n}} }

// TestDevicesAreNearTheCPUs pins which devices a job gets, and its cpus with them. The machine is
// flat, NUMA node k with the cpus 4k to 4k+3, where nothing else is said.
func TestDevicesAreNearTheCPUs(t *testing.T) {
	quads := func() []topology.Device { // of each four, two pairs are linked well and the four are linked
		devices := linked(gpus(0, 0, 0, 0, 0, 0, 0, 0), 1, []int{0, 1, 2, 3}, []int{4, 5, 6, 7})
		return linked(devices, 2, []int{0, 2}, []int{1, 3}, []int{4, 6}, []int{5, 7})
	}
	mig := func() []topology.Device { // g0 and g1 are in three parts each, g2 is whole
		devices := gpus(0, 0, 0, 0, 0, 0, 0)
		for i := range 6 {
			devices[i].Parent, devices[i].Model, devices[i].Memory = fmt.Sprintf("p%d", i/3),
				"NVIDIA A100-SXM4-40GB MIG 2g.10gb", 9984<<20
		}
		return devices
	}
	far := func() []topology.Device {
		devices := gpus(0, 0, 1, 1)
		for i := range devices {
			devices[i].NUMA = -1
		}
		return devices
	}
	mixed := func() []topology.Device {
		devices := gpus(0, 0, 1, 2)
		devices[1].Model, devices[1].Memory = "Tesla T4", 15360<<20
		devices[2].Model, devices[2].Memory = "Tesla T4", 15360<<20
		return append(devices, topology.Device{ID: "f0", Resource: "fpga", NUMA: 0},
			topology.Device{ID: "f1", Resource: "fpga", NUMA: 2})
	}
	two := gpus(0, 0, 2, 2)
	for _, tt := range []struct {
		name    string
		shape   shape
		devices []topology.Device
		req     Request
		taken   string
		held    string // IDs
		want    string
		cpus    string
		err     string
	}{
		{name: "the first", devices: two, req: Request{NCPUs: 1, Wants: anyGPU(1)}, want: "g0", cpus: "0"},
		{name: "cpus near it", devices: gpus(3), req: Request{NCPUs: 2, Wants: anyGPU(1)}, want: "g0", cpus: "12-13"},
		{name: "the rest of the socket", devices: gpus(3), req: Request{NCPUs: 6, Wants: anyGPU(1)}, want: "g0",
			cpus: "8-11,12-13"},
		{name: "no room near it", devices: gpus(3), req: Request{NCPUs: 4, Wants: anyGPU(1)}, taken: "8-15", want: "g0",
			cpus: "0-3"},
		{name: "no cpus", devices: two, req: Request{Wants: anyGPU(1)}, want: "g0", cpus: ""},
		{name: "where the cpus fit", devices: two, req: Request{NCPUs: 4, Wants: anyGPU(1)}, taken: "0", want: "g2",
			cpus: "8-11"},
		{name: "fits nowhere", devices: two, req: Request{NCPUs: 4, Wants: anyGPU(1)}, taken: "0-1,8", want: "g0",
			cpus: "4-7"},
		{name: "one NUMA node", devices: gpus(0, 1, 1, 2), req: Request{NCPUs: 1, Wants: anyGPU(2)}, want: "g1,g2",
			cpus: "4"},
		{name: "one socket", devices: gpus(0, 2, 3), req: Request{NCPUs: 1, Wants: anyGPU(2)}, want: "g1,g2",
			cpus: "8"},
		{name: "two NUMA nodes where the cpus do not fit in one", devices: gpus(0, 0, 1),
			req: Request{NCPUs: 5, Wants: anyGPU(2)}, want: "g0,g2", cpus: "0-2,4-5"},
		{name: "cpus with each", devices: gpus(0, 0, 0, 2), req: Request{NCPUs: 4, Wants: anyGPU(4)},
			want: "g0,g1,g2,g3", cpus: "0-2,8"},
		{name: "cpus with each as far as there are", devices: gpus(0, 2), req: Request{NCPUs: 5, Wants: anyGPU(2)},
			taken: "1-3", want: "g0,g1", cpus: "0,8-11"},
		{name: "fewer cpus than NUMA nodes", devices: gpus(0, 2), req: Request{NCPUs: 1, Wants: anyGPU(2)},
			want: "g0,g1", cpus: "0"},
		{name: "best fit", devices: two, req: Request{NCPUs: 1, Wants: anyGPU(1)}, held: "g2", want: "g3", cpus: "8"},
		{name: "spread", devices: two, req: Request{NCPUs: 1, Wants: anyGPU(1), Policy: Spread}, held: "g0", want: "g2",
			cpus: "8"},
		{name: "too many", devices: two, req: Request{Wants: anyGPU(9)}, held: "g2",
			err: "ngpus requested (9) exceeds ngpus available (3)"},
		{name: "none there", req: Request{Wants: anyGPU(1)}, err: "ngpus requested (1) exceeds ngpus available (0)"},
		{name: "negative", devices: two, req: Request{Wants: anyGPU(-1)}, err: "place job: -1 ngpus"},
		{name: "nothing wanted", devices: two, req: Request{NCPUs: 1, Wants: anyGPU(0)}, cpus: "4"},
		{name: "no NUMA node known", devices: far(), req: Request{NCPUs: 1, Wants: anyGPU(2)}, want: "g0,g1",
			cpus: "0"},

		{name: "well linked", devices: quads(), req: Request{Wants: anyGPU(2)}, want: "g0,g2"},
		{name: "four", devices: quads(), req: Request{Wants: anyGPU(4)}, held: "g1", want: "g4,g5,g6,g7"},
		{name: "links told by one end", devices: append(gpus(0, 0), topology.Device{ID: "x", Resource: "ngpus",
			Vendor: "nvidia", Model: "NVIDIA A100-SXM4-40GB", Memory: 40960 << 20,
			Links: map[string]int{"g1": 4, "x": 9, "gone": 1}}),
			req: Request{Wants: anyGPU(2)}, want: "g1,x"},

		{name: "whole by its model", devices: mig(),
			req: Request{Wants: []Want{{Resource: "ngpus", MinMemory: 40 << 30, Count: 1}}}, want: "g6"},

		{name: "a model", devices: mixed(),
			req: Request{Wants: []Want{{Resource: "ngpus", Models: []string{"a100"}, Count: 2}}}, want: "g0,g3"},
		{name: "two kinds", devices: mixed(), req: Request{NCPUs: 1,
			Wants: []Want{{Resource: "ngpus", Count: 1, Models: []string{"A100"}}, {Resource: "fpga", Count: 2}}},
			want: "g3,f0,f1", cpus: "8"},
		{name: "beside each other", devices: mixed(), req: Request{NCPUs: 1,
			Wants: []Want{{Resource: "fpga", Count: 1}, {Resource: "ngpus", Count: 1, Models: []string{"A100"}}}},
			held: "f0", want: "g3,f1", cpus: "8"},
		{name: "the particular one first", devices: mixed(), req: Request{Wants: []Want{{Resource: "ngpus", Count: 2},
			{Resource: "ngpus", Count: 2, Models: []string{"T4"}}}},
			want: "g0,g1,g2,g3"},
		{name: "leaves enough for the other want", devices: mixed(),
			req: Request{Wants: []Want{
				{Resource: "ngpus", Count: 2, Models: []string{"A100", "T4"}, MinMemory: 1},
				{Resource: "ngpus", Count: 2, Vendor: "nvidia", MaxMemory: 16 << 30}}},
			want: "g0,g1,g2,g3"},
		{name: "not of that kind", devices: mixed(), req: Request{Wants: []Want{{Resource: "ngpus", Count: 3,
			Vendor: "nvidia", Models: []string{"T4", "H100"}, MaxMemory: 40 << 30}}},
			held: "g1", err: "ngpus requested (3) exceeds ngpus available (1): 2 of 4 match nvidia:T4,H100:..40gb"},
		{name: "two wants too many", devices: mixed(), req: Request{Wants: []Want{{Resource: "ngpus", Count: 3},
			{Resource: "ngpus", Count: 2, Models: []string{"T4"}}, {Resource: "fpga", Count: 1}}},
			err: "ngpus requested (5) exceeds ngpus available (4): 4 of 4 match *:T4"},

		{name: "shared", devices: two, req: Request{Wants: anyGPU(3), JobsPerDevice: 2}, held: "g0,g1,g0,g2",
			want: "g1,g2,g3"},
		{name: "a free one before a shared one", devices: two, req: Request{Wants: anyGPU(1), JobsPerDevice: 4},
			held: "g0,g1,g2", want: "g3"},
		{name: "not more jobs than that", devices: two, req: Request{Wants: anyGPU(4), JobsPerDevice: 2}, held: "g0,g0",
			err: "ngpus requested (4) exceeds ngpus available (3)"},

		{name: "keeps", devices: two, req: Request{Wants: anyGPU(1), KeepDevices: []string{"g3"}}, want: "g3"},
		{name: "keeps and gets one beside", devices: two, req: Request{Wants: anyGPU(2), KeepDevices: []string{"g3"}},
			want: "g2,g3"},
		{name: "keeps those together", devices: two,
			req: Request{Wants: anyGPU(2), KeepDevices: []string{"g0", "g2", "g3"}}, want: "g2,g3"},
		{name: "does not keep what is gone", devices: two,
			req: Request{Wants: anyGPU(1), KeepDevices: []string{"g2", "gone"}}, held: "g2", want: "g3"},
		{name: "near the cpus that it keeps", devices: two,
			req: Request{NCPUs: 2, Keep: kernfs.IDs(8, 9), Wants: anyGPU(1)}, want: "g2", cpus: "8-9"},
		{name: "fewer cpus, those near it", devices: two, req: Request{NCPUs: 1, Keep: kernfs.IDs(0, 8),
			Wants: anyGPU(1), KeepDevices: []string{"g2"}}, want: "g2", cpus: "8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.shape == (shape{}) {
				tt.shape = flat
			}
			node := tt.shape.build()
			tt.req.Allowed, tt.req.Taken, tt.req.Devices, tt.req.Held = node.Online, ids(t, tt.taken), tt.devices,
				map[string]int{}
			for id := range strings.SplitSeq(tt.held, ",") {
				tt.req.Held[id]++
			}
			got, err := Place(node, tt.req)
			if text := errorText(err); text != tt.err {
				t.Fatalf("error %q, want %q", text, tt.err)
			}
			if strings.Join(got.Devices, ",") != tt.want || err == nil && !got.CPUs.Equal(ids(t, tt.cpus)) {
				t.Errorf("%v with cpus %v, want %s with %s", got.Devices, got.CPUs, tt.want, tt.cpus)
			}
		})
	}
}

// Jobs without devices are where they take no cpu from devices that others may want.
func TestCPUsAwayFromDevices(t *testing.T) {
	for _, tt := range []struct {
		name    string
		numa    []int
		ncpus   int
		held    map[string]int
		taken   string
		policy  Policy
		threads bool
		want    string
	}{
		{name: "another socket", numa: []int{0}, ncpus: 1, want: "8"},
		{name: "another NUMA node", numa: []int{0, 3}, ncpus: 1, want: "4"},
		{name: "a whole node", numa: []int{0, 1, 3}, ncpus: 4, want: "8-11"},
		{name: "a whole socket", numa: []int{1}, ncpus: 8, want: "8-15"},
		{name: "held ones need nothing more", numa: []int{0, 1, 2, 3}, held: map[string]int{"g0": 1, "g1": 1, "g3": 1},
			ncpus: 1, want: "0"},
		{name: "full before the policy's last cpu", numa: []int{0, 0, 1, 2, 3}, taken: "0-1,4", ncpus: 1, want: "5"},
		{name: "the policy among those with enough", numa: []int{0, 1, 2, 3}, taken: "4-5", ncpus: 1, want: "6"},
		{name: "spread", numa: []int{0, 1, 2, 3}, taken: "0", ncpus: 1, policy: Spread, want: "8"},
		{name: "better near them than not at all", numa: []int{0, 0, 0, 0}, taken: "4-15", ncpus: 4, want: "0-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := flat.build()
			got, err := Place(node, Request{NCPUs: tt.ncpus, Allowed: node.Online, Taken: ids(t, tt.taken),
				Policy:  tt.policy,
				Devices: gpus(tt.numa...), Held: tt.held})
			if err != nil || got.CPUs.String() != tt.want || got.Devices != nil {
				t.Errorf("cpus %v, devices %v, %v, want %s and none", got.CPUs, got.Devices, err, tt.want)
			}
		})
	}
}

// The choice is near, well linked and complete also with too many sets of devices to look at all.
func TestManyDevices(t *testing.T) {
	node := shape{2, 4, 4, 1, 0}.build()
	var numa []int
	for i := range 32 {
		numa = append(numa, i/4)
	}
	devices := linked(gpus(numa...), 2, list(8), []int{8, 9, 10, 11, 12, 13, 14, 15})
	got, err := Place(node, Request{Wants: anyGPU(8), Devices: devices, Held: map[string]int{"g3": 1}})
	if want := "[g8 g9 g10 g11 g12 g13 g14 g15]"; err != nil || fmt.Sprint(got.Devices) != want {
		t.Errorf("%v, %v, want %s", got.Devices, err, want)
	}
	// Wants that match the same devices, and together take all.
	for i := range 10 {
		devices[i].Model = "Tesla T4"
	}
	devices[31].Vendor = "amd"
	wants := []Want{{Resource: "ngpus", Vendor: "nvidia", Count: 15}, {Resource: "ngpus", Count: 16},
		{Resource: "ngpus", Models: []string{"T4"}, Count: 1}}
	got, err = Place(node, Request{Wants: wants, Devices: devices})
	if err != nil || len(got.Devices) != 32 || len(slices.Compact(slices.Clone(got.Devices))) != 32 {
		t.Errorf("%v, %v, want all", got.Devices, err)
	}
}

// Thousands of devices, as a pattern of the configuration can name by mistake, take no longer to
// choose from than a few.
func TestDevicesWithoutEnd(t *testing.T) {
	const all = 4000
	node := shape{2, 4, 4, 1, 0}.build()
	numa := make([]int, all)
	for i := range numa {
		numa[i] = i % 8
	}
	kinds := func(n int) []Want { // equal ones
		var wants []Want
		for range n {
			wants = append(wants, Want{Resource: "ngpus", Count: all / n})
		}
		return wants
	}
	for _, tt := range []struct {
		name  string
		wants []Want
		keep  []string
	}{
		{"one", anyGPU(1), nil},
		{"two", anyGPU(2), nil},
		{"thirty", anyGPU(30), nil},
		{"half of them, some of them kept", anyGPU(all / 2), []string{"g3999", "g1"}},
		{"all but one", anyGPU(all - 1), nil},
		{"64 kinds", kinds(64), nil},
	} {
		count := 0
		for _, w := range tt.wants {
			count += w.Count
		}
		req := Request{NCPUs: 2, Allowed: node.Online, Wants: tt.wants, Devices: gpus(numa...), KeepDevices: tt.keep,
			Held: map[string]int{"g2": 1}}
		p := newPicker(newMachine(node, req))
		got, err := p.pick()
		if err != nil || len(slices.Compact(got)) != count || p.steps > 2*mostSteps {
			t.Errorf("%s: %d devices in %d steps, %v, want %d in %d", tt.name, len(got), p.steps, err, count,
				2*mostSteps)
		}
		for _, id := range tt.keep {
			if !slices.ContainsFunc(got, func(i int) bool { return req.Devices[i].ID == id }) {
				t.Errorf("%s: the job does not keep %s", tt.name, id)
			}
		}
	}
}

func TestWantMatches(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		model    string
		memory   int64 // MiB, as drivers tell it
		names    string
		low, top int64 // GB
		want     bool
	}{
		{model: "NVIDIA A100-SXM4-40GB", names: "A100", want: true},
		{model: "NVIDIA A100-SXM4-40GB", names: "a100", want: true},
		{model: "NVIDIA A100-SXM4-40GB", names: "A100-SXM4", want: true},
		{model: "NVIDIA A100-SXM4-40GB", names: "nvidia_a100", want: true},
		{model: "NVIDIA A100-SXM4-40GB", names: "H100,A100", want: true},
		{model: "NVIDIA A100-SXM4-40GB", names: "A10"},
		{model: "NVIDIA A100-SXM4-40GB", names: "A100-40GB"},
		{model: "NVIDIA A1000", names: "A100"},
		{model: "AMD Instinct MI250X", names: "MI250"},
		{model: "AMD Instinct MI250X", names: "mi250x", want: true},
		{model: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", names: "1g.10gb", want: true},
		{model: "", names: "A100"},
		{model: "NVIDIA A100-SXM4-40GB", names: "-"},

		{model: "NVIDIA H100 80GB HBM3", memory: 81559, low: 80, top: 80, want: true},
		{model: "NVIDIA A100-SXM4-80GB", memory: 81920, low: 80, top: 80, want: true},
		{model: "NVIDIA A100-SXM4-80GB", memory: 81251, low: 40, top: 80, want: true},
		{model: "NVIDIA A100-SXM4-40GB", memory: 40536, low: 40, top: 40, want: true},
		{model: "NVIDIA A100-SXM4-40GB", memory: 40536, low: 41},
		{model: "NVIDIA H100 PCIe", memory: 81559, low: 80, want: true},
		{model: "NVIDIA H100 PCIe", memory: 81559, top: 80, want: true},
		{model: "NVIDIA H100 PCIe", memory: 81559, top: 79},
		{model: "NVIDIA H100 PCIe", memory: 81559, low: 94},
		{model: "NVIDIA H200", memory: 143771, low: 141, top: 141, want: true},
		{model: "Tesla T4", memory: 15109, low: 16, top: 16, want: true},
		{model: "NVIDIA A10", memory: 22731, low: 24, top: 24, want: true},
		{model: "NVIDIA A40", memory: 45634, low: 48, top: 48, want: true},
		{model: "AMD Instinct MI250X", memory: 65520, low: 64, top: 64, want: true},
		{model: "NVIDIA GeForce RTX 4090", memory: 24564, low: 24, top: 24, want: true},
		{model: "NVIDIA GeForce RTX 3080", memory: 10240, low: 12},
		// The name of a GPU says nothing of the memory of its part.
		{model: "NVIDIA A100-SXM4-40GB", memory: 4864, low: 40},
		{model: "NVIDIA A100-SXM4-40GB", memory: 4864, top: 5, want: true},
		{model: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", memory: 4864, low: 5, top: 5, want: true},
		{model: "NVIDIA A100-SXM4-40GB", memory: 0, low: 40, top: 40, want: true},
		{model: "Tesla T4", memory: 0, low: 1},
		{model: "Tesla T4", memory: 0, top: 80},
		{model: "Tesla T4", memory: 0, want: true},
	} {
		w := Want{Resource: "ngpus", MinMemory: tt.low << 30, MaxMemory: tt.top << 30}
		if tt.names != "" {
			w.Models = strings.Split(tt.names, ",")
		}
		if got := w.Matches(topology.Device{Resource: "ngpus", Model: tt.model,
			Memory: tt.memory * mib}); got != tt.want {
			t.Errorf("%s of %d MiB, want %s %d to %d: %v", tt.model, tt.memory, tt.names, tt.low, tt.top, got)
		}
	}
	for _, w := range []Want{{Resource: "fpga"}, {Resource: "ngpus", Vendor: "amd"}} {
		if w.Matches(gpus(0)[0]) {
			t.Errorf("%+v matches a GPU of nvidia", w)
		}
	}
}

// randomDevices returns up to 10 devices of several kinds.
func randomDevices(r *rand.Rand, node *topology.Node) []topology.Device {
	devices := gpus(make([]int, r.IntN(11))...)
	for i := range devices {
		d := &devices[i]
		d.NUMA = r.IntN(len(node.NUMA)+2) - 1
		switch r.IntN(6) {
		case 0:
			d.Model, d.Memory = "Tesla T4", 15360<<20
		case 1:
			d.Resource, d.Vendor = "fpga", ""
		case 2:
			d.Parent = fmt.Sprintf("p%d", r.IntN(2))
		}
		for range r.IntN(3) {
			linked(devices, 1+r.IntN(3), []int{i, r.IntN(len(devices))})
		}
	}
	return devices
}

func randomWants(r *rand.Rand) []Want {
	var wants []Want
	for range r.IntN(4) {
		w := Want{Resource: "ngpus", Count: r.IntN(4)}
		switch r.IntN(5) {
		case 0:
			w.Resource = "fpga"
		case 1:
			w.Models = []string{"T4"}
		case 2:
			w.MinMemory = 16 << 30
		}
		wants = append(wants, w)
	}
	return wants
}

// checkDevices tests what holds for every answer to wants: it says no exactly when there is no way
// to give each what it wants.
func checkDevices(t *testing.T, req Request, got Assignment, err error) {
	t.Helper()
	var free []topology.Device
	for _, d := range req.Devices {
		if req.Held[d.ID] < max(1, req.JobsPerDevice) {
			free = append(free, d)
		}
	}
	var short *ShortageError
	if errors.As(err, &short) && short.Resource != "ncpus" {
		if answers(free, req.Wants) || short.Want <= short.Have {
			t.Errorf("%+v: %v, though there are enough", req, err)
		}
		return
	}
	if err != nil {
		return
	}
	total := 0
	for _, w := range req.Wants {
		total += w.Count
	}
	var mine []topology.Device
	at := -1
	for _, id := range got.Devices {
		i := slices.IndexFunc(req.Devices, func(d topology.Device) bool { return d.ID == id })
		if i <= at {
			t.Errorf("%+v: devices %v out of order", req, got.Devices)
			return
		}
		at = i
		mine = append(mine, req.Devices[i])
		if held := req.Held[id]; held >= max(1, req.JobsPerDevice) {
			t.Errorf("%+v: device %s has %d holders already", req, id, held)
		}
	}
	if len(mine) != total || !answers(mine, req.Wants) {
		t.Errorf("%+v: devices %v do not answer the wants", req, got.Devices)
	}
}

// answers tries every way to give devices to wants.
func answers(devices []topology.Device, wants []Want) bool {
	for i, w := range wants {
		if w.Count == 0 {
			continue
		}
		rest := slices.Clone(wants)
		rest[i].Count--
		for j, d := range devices {
			if w.Matches(d) && answers(slices.Delete(slices.Clone(devices), j, j+1), rest) {
				return true
			}
		}
		return false
	}
	return true
}

func checkRandomDevices(t *testing.T, seed1, seed2 uint64) {
	r := rand.New(rand.NewPCG(seed1, seed2))
	node := randomNode(r)
	req := randomRequest(r, node)
	req.Devices, req.Wants, req.JobsPerDevice, req.Held = randomDevices(r, node), randomWants(r), r.IntN(4),
		map[string]int{}
	for _, d := range req.Devices {
		req.Held[d.ID] = max(0, r.IntN(5)-2)
	}
	got, err := Place(node, req)
	checkDevices(t, req, got, err)
	if err == nil {
		checkCount(t, node, req, got)
		checkSharing(t, node, req, got)
		checkMems(t, node, req, got)
		if usable := req.Allowed.Intersect(node.Online).Minus(req.Taken); !got.CPUs.Minus(usable).IsEmpty() {
			t.Errorf("%+v: cpus %v, of which %v are not to be had", req, got.CPUs, got.CPUs.Minus(usable))
		}
	}
	if again, err2 := Place(node, req); fmt.Sprint(again, err2) != fmt.Sprint(got, err) {
		t.Errorf("%+v: %v, %v, the second time %v, %v", req, got, err, again, err2)
	}
	if err != nil {
		return
	}
	// Resized: of one kind of device, none leaves a job that gets as many or more.
	req.Keep, req.KeepDevices, req.NCPUs = got.CPUs, got.Devices, r.IntN(node.Online.Len()+2)
	for i := range req.Wants {
		req.Wants[i].Count = r.IntN(4)
	}
	more, err := Place(node, req)
	checkDevices(t, req, more, err)
	var short *ShortageError
	if err == nil || errors.As(err, &short) && short.Resource == "ncpus" {
		checkKept(t, node, req, more, err)
	}
	if err == nil && len(req.Wants) == 1 {
		stayed := len(got.Devices) - len(without(got.Devices, more.Devices))
		if stayed < min(len(got.Devices), len(more.Devices)) {
			t.Errorf("%+v: %v instead of %v", req, more.Devices, got.Devices)
		}
	}
}

// without returns what of a is not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(id string) bool { return slices.Contains(b, id) })
}

func TestDevicesRandomly(t *testing.T) {
	for seed := range uint64(5000) {
		checkRandomDevices(t, seed, 4)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
