package placement

// score rates a choice. The first number that differs decides, and the smaller one is better.
type score [7]int64

func (s *score) before(t *score) bool {
	for i := range s {
		if s[i] != t[i] {
			return s[i] < t[i]
		}
	}
	return false
}

// mostSteps is how many items of sets rate examines for one job, which takes some 10 ms.
const mostSteps = 1_000_000

// search returns k of items, in their order, with a low score. It grows a set from each item,
// always adding the item with the best score. It returns the best set that ok accepts, or the first
// of equally good ones. A step is one item of a set that rate examines. search returns nil if it
// finds no set, or if even a single set would take more than steps.
func search(items []int, k, steps int, rate func(set []int) score, ok func(set []int) bool) []int {
	n := len(items)
	if k <= 0 || k > n {
		return nil
	}
	var best []int
	var least score
	seeds := min(n, steps/(n*k*k/2+1)) // every item, or some at equal distances
	for i := range seeds {
		set := grown(items, k, i*n/seeds, rate)
		if s := rate(set); (best == nil || s.before(&least)) && ok(set) {
			best, least = set, s
		}
	}
	return best
}

// grown returns k of items, in their order, including the one at first.
func grown(items []int, k, first int, rate func(set []int) score) []int {
	in := make([]bool, len(items))
	in[first] = true
	set := append(make([]int, 0, k), items[first])
	for len(set) < k {
		next := -1
		var least score
		for i, item := range items {
			if in[i] {
				continue
			}
			if s := rate(append(set, item)); next < 0 || s.before(&least) {
				next, least = i, s
			}
		}
		in[next] = true
		set = append(set, items[next])
	}
	set = set[:0]
	for i, chosen := range in {
		if chosen {
			set = append(set, items[i])
		}
	}
	return set
}
