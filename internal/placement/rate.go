package placement

// The criteria for comparing sets of devices that answer a want, in this order. The first lets a
// job keep the devices that it has.
const (
	byLost    = iota // devices that the job did not have before
	byHolders        // other jobs that hold the devices
	// 1 if the job's cpus do not fit next to the devices. If the job keeps its cpus, it is the
	// number of devices that are not next to them.
	byDistance
	bySockets
	byNUMANodes
	byLinks // the number of links between them, negated
	byRoom  // devices that remain next to them: fewer is better for Pack, more for Spread
)

// picker chooses devices for the wants of one request. A device is its number in the request's
// list.
type picker struct {
	*machine
	items  []item
	places []place
	links  [][]int64 // between two devices; nil for a device without links
	keeps  bool      // the job keeps cpus
	chosen []int

	calls int // of rate
	steps int // items of sets that rate has examined
}

// item holds the properties of a device that matter for the choice.
type item struct {
	free    bool // the job can get it and does not have it yet
	kept    bool // the job had it before
	holders int
	place   int // -1 if no cpu is next to it
}

// place is a NUMA node with cpus.
type place struct {
	socket  int // the number of the first place of that socket
	units   int // free cpus, as the request counts them
	devices int // those that this job can get
	kept    bool

	met, socketMet int // the last call of rate that counted it
}

func newPicker(m *machine) *picker {
	p := &picker{machine: m, items: make([]item, len(m.req.Devices)), links: make([][]int64, len(m.req.Devices))}
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
	byID, keep := map[string]int{}, map[string]bool{}
	for _, id := range m.req.KeepDevices {
		keep[id] = true
	}
	for i, d := range m.req.Devices {
		byID[d.ID] = i
		it := item{free: m.available(d), kept: keep[d.ID], holders: m.req.Held[d.ID], place: -1}
		if at, ok := numa[d.NUMA]; ok {
			it.place = at
			if it.free {
				p.places[at].devices++
			}
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

// first returns the number that key was given first.
func first(numbers map[int]int, key, number int) int {
	if known, ok := numbers[key]; ok {
		return known
	}
	numbers[key] = number
	return number
}

// link records n links between i and j. One or both of the two devices report them.
func (p *picker) link(i, j int, n int64) {
	for _, end := range [][2]int{{i, j}, {j, i}} {
		if p.links[end[0]] == nil {
			p.links[end[0]] = make([]int64, len(p.items))
		}
		p.links[end[0]][end[1]] = max(p.links[end[0]][end[1]], n)
	}
}

// rate returns the score of a set of devices. It is called some thousand times for one job.
func (p *picker) rate(set []int) score {
	p.calls++
	p.steps += len(set)
	var s score
	units, room := 0, 0
	for k, i := range set {
		it := &p.items[i]
		if !it.kept {
			s[byLost]++
		}
		s[byHolders] += int64(it.holders)
		if links := p.links[i]; links != nil {
			for _, other := range set[:k] {
				s[byLinks] -= links[other]
			}
		}
		if it.place < 0 {
			continue
		}
		at := &p.places[it.place]
		if at.met != p.calls {
			at.met = p.calls
			s[byNUMANodes]++
			units, room = units+at.units, room+at.devices
		}
		if socket := &p.places[at.socket]; socket.socketMet != p.calls {
			socket.socketMet = p.calls
			s[bySockets]++
		}
		room--
		if p.keeps && !at.kept {
			s[byDistance]++
		}
	}
	s[byRoom] = int64(room)
	if p.req.Policy == Spread {
		s[byRoom] = -s[byRoom]
	}
	if !p.keeps && s[byNUMANodes] > 0 && units < p.req.NCPUs {
		s[byDistance] = 1
	}
	return s
}
