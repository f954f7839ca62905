package placement

import "slices"

// The criteria between sets of devices that answer a want, in this order. The first asks nobody to
// move. The last ones leave to others what is of most use to them.
const (
	byLost    = iota // devices that are not among those that the job keeps
	byHolders        // jobs that hold the devices too
	// 1 where the job's cpus do not fit next to them; of a job that keeps its cpus, devices not
	// next to those
	byDistance
	byModels
	bySockets
	byNUMANodes
	byLinks    // less the links between them
	byCPUs     // cpus that do not fit next to them
	byMemory   // theirs: others may need more than this job asked for
	byParents  // GPUs that nobody has had an instance of
	byStranded // devices left that would have no cpu next to them
	byRoom     // devices left next to them: few when packing, many when spreading
	byCut      // links between them and what is left
)

// picker chooses devices for the wants of one request. Devices are numbers in the request's list.
type picker struct {
	*machine
	items  []item
	places []place
	links  [][]int64 // between two devices; nil for one that has none
	keeps  bool      // the job keeps cpus
	chosen []int

	met   [4][]int // of models, parents, sockets and places: the last call of rate that met it
	calls int
	steps int // items of sets that rate has looked at

	chosenAt []int // the places of chosen
	lost     int64 // devices of chosen that are not next to the cpus that the job keeps
}

const (
	ofModels = iota
	ofParents
	ofSockets
	ofPlaces
)

// item is what counts of a device.
type item struct {
	free          bool // the job can get it, and has not yet
	kept          bool // the job had it before
	holders       int
	memory        int64
	place         int   // -1 where no cpu is next to it
	model, parent int   // the first device of that model and of that parent; parent is -1 for one that is nobody's part
	used          bool  // a job has a part of its parent
	links         int64 // to all that are free
	toChosen      int64 // links to those that are chosen
}

// place is a NUMA node with cpus.
type place struct {
	socket  int
	units   int // free cpus, as the request counts them
	devices int // free ones
	kept    bool
}

func newPicker(m *machine) *picker {
	p := &picker{machine: m, items: make([]item, len(m.req.Devices)), links: make([][]int64, len(m.req.Devices))}
	for i := range p.met {
		p.met[i] = make([]int, max(len(p.items), len(m.leaves)))
	}
	numa, socketAt := map[int]int{}, map[int]int{}
	for _, l := range m.leaves {
		at := first(numa, l.numa, len(p.places))
		if at == len(p.places) {
			p.places = append(p.places, place{socket: first(socketAt, l.socket, at)})
		}
		p.places[at].units += l.free
	}
	if !m.req.Keep.IsEmpty() {
		cpus, n := m.kept()
		p.keeps = n > 0
		for _, s := range m.at(cpus) {
			p.places[numa[s.leaf.numa]].kept = true
		}
	}
	modelAt, parentAt, byID := map[string]int{}, map[string]int{}, map[string]int{}
	keep := map[string]bool{}
	for _, id := range m.req.KeepDevices {
		keep[id] = true
	}
	for i, d := range m.req.Devices {
		byID[d.ID] = i
		it := item{
			free: m.available(d), kept: keep[d.ID], holders: m.req.Held[d.ID],
			memory: d.Memory, place: -1, model: first(modelAt, d.Vendor+" "+d.Model, i), parent: -1,
		}
		if at, ok := numa[d.NUMA]; ok {
			it.place = at
		}
		if d.Parent != "" {
			it.parent = first(parentAt, d.Parent, i)
		}
		p.items[i] = it
	}
	for i, d := range m.req.Devices {
		for id, n := range d.Links {
			if j, ok := byID[id]; ok && j != i && n > 0 {
				p.link(i, j, int64(n))
			}
		}
	}
	return p
}

// first returns the number that key got first.
func first[K comparable](numbers map[K]int, key K, number int) int {
	if known, ok := numbers[key]; ok {
		return known
	}
	numbers[key] = number
	return number
}

// link notes n links between i and j, which both ends tell of, or one of them.
func (p *picker) link(i, j int, n int64) {
	for _, end := range [][2]int{{i, j}, {j, i}} {
		if p.links[end[0]] == nil {
			p.links[end[0]] = make([]int64, len(p.items))
		}
		p.links[end[0]][end[1]] = max(p.links[end[0]][end[1]], n)
	}
}

// count counts what is free and notes what is used and chosen, for rate.
func (p *picker) count() {
	for i := range p.places {
		p.places[i].devices = 0
	}
	used := map[int]bool{}
	p.chosenAt, p.lost = p.chosenAt[:0], 0
	for _, i := range p.chosen {
		used[p.items[i].parent] = true
		at := p.items[i].place
		if at < 0 {
			continue
		}
		if p.keeps && !p.places[at].kept {
			p.lost++
		}
		if !slices.Contains(p.chosenAt, at) {
			p.chosenAt = append(p.chosenAt, at)
		}
	}
	for i := range p.items {
		it := &p.items[i]
		used[it.parent] = used[it.parent] || it.holders > 0 || it.kept
		it.links, it.toChosen = 0, 0
		if links := p.links[i]; links != nil {
			for j, n := range links {
				if p.items[j].free {
					it.links += n
				}
			}
			for _, j := range p.chosen {
				it.toChosen += links[j]
			}
		}
		if it.free && it.place >= 0 {
			p.places[it.place].devices++
		}
	}
	for i := range p.items {
		p.items[i].used = used[p.items[i].parent]
	}
}

// isNew reports whether this call of rate meets number for the first time.
func (p *picker) isNew(what, number int) bool {
	if p.met[what][number] == p.calls {
		return false
	}
	p.met[what][number] = p.calls
	return true
}

// rate tells how good it is to add set of free to what is chosen already. rate is called some
// thousand times for one job.
func (p *picker) rate(free, set []int) score {
	p.calls++
	p.steps += len(set)
	s := score{byDistance: p.lost}
	units, room := 0, 0
	for _, at := range p.chosenAt {
		units, room = p.visit(&s, at, units, room)
	}
	var within int64
	for k, n := range set {
		i := free[n]
		it := &p.items[i]
		if it.place >= 0 {
			units, room = p.visit(&s, it.place, units, room)
			room--
			if p.keeps && !p.places[it.place].kept {
				s[byDistance]++
			}
		}
		if !it.kept {
			s[byLost]++
		}
		if p.isNew(ofModels, it.model) {
			s[byModels]++
		}
		if it.parent >= 0 && !it.used && p.isNew(ofParents, it.parent) {
			s[byParents]++
		}
		s[byHolders] += int64(it.holders)
		s[byMemory] += it.memory
		if links := p.links[i]; links != nil {
			s[byCut] += it.links
			for _, other := range set[:k] {
				within += links[free[other]]
			}
			s[byLinks] -= it.toChosen
		}
	}
	s[byLinks] -= within
	s[byCut] -= 2 * within
	s[byRoom] = int64(room)
	if p.req.Policy == Spread {
		s[byRoom] = -s[byRoom]
	}
	if !p.keeps && s[byNUMANodes] > 0 {
		s[byCPUs] = int64(max(0, p.req.NCPUs-units))
		s[byDistance] = min(s[byCPUs], 1)
		s[byStranded] = int64(max(0, room-max(0, units-p.req.NCPUs)))
	}
	return s
}

// visit adds a place to s, and what is free there to units and room.
func (p *picker) visit(s *score, at, units, room int) (int, int) {
	here := p.places[at]
	if p.isNew(ofPlaces, at) {
		s[byNUMANodes]++
		units, room = units+here.units, room+here.devices
		if p.isNew(ofSockets, here.socket) {
			s[bySockets]++
		}
	}
	return units, room
}
