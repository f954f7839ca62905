package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// want is a Want with the devices that match it.
type want struct {
	Want
	fits []int
}

// pick returns the devices that the job gets: their numbers in the request's list, ascending. Wants
// are answered one after another, beginning with the one that the fewest devices match. Each answer
// leaves enough devices for the remaining wants. pick fails with a *ShortageError.
func (m *machine) pick() ([]int, error) {
	if !slices.ContainsFunc(m.req.Wants, func(w Want) bool { return w.Count != 0 }) {
		return nil, nil
	}
	return newPicker(m).pick()
}

func (p *picker) pick() ([]int, error) {
	var wants []want
	for _, w := range p.req.Wants {
		switch {
		case w.Count < 0:
			return nil, fmt.Errorf("place job: %d %s", w.Count, w.Resource)
		case w.Count > 0:
			wants = append(wants, want{Want: w})
		}
	}
	for i := range wants {
		for j, d := range p.req.Devices {
			if wants[i].Matches(d) {
				wants[i].fits = append(wants[i].fits, j)
			}
		}
	}
	slices.SortStableFunc(wants, func(a, b want) int { return cmp.Compare(len(a.fits), len(b.fits)) })
	if _, short := p.match(wants); short != nil {
		return nil, short
	}
	for i := range wants {
		p.answer(wants[i:], mostSteps/len(wants))
	}
	slices.Sort(p.chosen)
	return p.chosen, nil
}

// answer chooses devices for the first of wants, in about the given number of steps. They are near
// to those that are already chosen, and leave enough for the other wants.
func (p *picker) answer(wants []want, steps int) {
	var free []int
	for _, i := range wants[0].fits {
		if p.items[i].free {
			free = append(free, i)
		}
	}
	var beside []int
	chosen := search(free, wants[0].Count, steps, func(set []int) score {
		beside = append(append(beside[:0], p.chosen...), set...)
		return p.rate(beside)
	}, func(set []int) bool { return p.leaves(set, wants[1:]) })
	if chosen == nil { // there are too many devices to compare, or no set leaves enough
		slices.SortStableFunc(wants[0].fits, p.sooner)
		owners, _ := p.match(wants)
		for i, owner := range owners {
			if owner == 0 {
				chosen = append(chosen, i)
			}
		}
	}
	for _, i := range chosen {
		p.items[i].free = false
	}
	p.chosen = append(p.chosen, chosen...)
}

// sooner orders devices by their own properties, without regard to other devices.
func (p *picker) sooner(i, j int) int {
	a, b := &p.items[i], &p.items[j]
	if a.kept != b.kept {
		if a.kept {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.holders, b.holders), cmp.Compare(a.place, b.place))
}

// leaves reports whether wants can still be satisfied after set is taken.
func (p *picker) leaves(set []int, wants []want) bool {
	if len(wants) == 0 {
		return true
	}
	for _, i := range set {
		p.items[i].free = false
	}
	_, short := p.match(wants)
	for _, i := range set {
		p.items[i].free = true
	}
	return short == nil
}

// match finds devices for all of wants at once, wherever they are. For each device it returns the
// index of the want that gets it, or -1. The *ShortageError names wants that together ask for more
// devices than match any of them.
func (p *picker) match(wants []want) ([]int, *ShortageError) {
	owners := make([]int, len(p.items))
	for i := range owners {
		owners[i] = -1
	}
	seen, asked := make([]bool, len(p.items)), make([]bool, len(wants))
	var find func(w int) bool
	find = func(w int) bool { // an augmenting path, as in every book on bipartite matching
		if asked[w] {
			return false
		}
		asked[w] = true
		for _, i := range wants[w].fits {
			if !p.items[i].free || seen[i] {
				continue
			}
			seen[i] = true
			if owners[i] < 0 || find(owners[i]) {
				owners[i] = w
				return true
			}
		}
		return false
	}
	for w := range wants {
		count := wants[w].Count
		for _, i := range wants[w].fits { // first the devices that no other want has to give up
			if count > 0 && p.items[i].free && owners[i] < 0 {
				owners[i] = w
				count--
			}
		}
		for range count {
			clear(seen)
			clear(asked)
			if !find(w) {
				return nil, p.shortage(wants, seen, asked)
			}
		}
	}
	return owners, nil
}

// shortage returns the error for the wants in asked, which need more devices than those in seen.
func (p *picker) shortage(wants []want, seen, asked []bool) *ShortageError {
	e := &ShortageError{}
	matching := map[int]bool{}
	var kinds []string
	for w, short := range asked {
		if !short {
			continue
		}
		e.Resource = wants[w].Resource
		e.Want += int64(wants[w].Count)
		for _, i := range wants[w].fits {
			matching[i] = true
		}
		if kind := wants[w].kind(); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	all := 0
	for i, d := range p.req.Devices {
		if seen[i] {
			e.Have++
		}
		if d.Resource == e.Resource {
			all++
		}
	}
	if len(kinds) > 0 {
		e.Note = fmt.Sprintf("%d of %d match %s", len(matching), all, strings.Join(kinds, " or "))
	}
	return e
}
