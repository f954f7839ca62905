package placement

// score tells how good a choice is: the first number that differs decides, the smaller one is
// better.
type score [13]int64

func (s *score) before(t *score) bool {
	for i := range s {
		if s[i] != t[i] {
			return s[i] < t[i]
		}
	}
	return false
}

// mostSets is how many sets search looks at before it stops looking at all: 8 of 16 are 12870.
const mostSets = 20_000

// search returns the k of the items 0 to n-1, ascending, that rate gives the smallest score. Only
// sets that ok accepts count, and the first of equals in the order of the items wins. With too many
// sets, search looks at sets that grow from each item, for as many items as steps allow. Such a set
// grows one item at a time by the best score. search returns nil when it finds no set. search looks
// for none where a single set would take more steps.
func search(n, k, steps int, rate func(set []int) score, ok func(set []int) bool) []int {
	var best []int
	var least score
	try := func(set []int) {
		if s := rate(set); (best == nil || s.before(&least)) && ok(set) {
			best, least = append(best[:0], set...), s
		}
	}
	switch {
	case k > n || k <= 0:
	case sets(n, k) <= mostSets:
		eachSet(n, k, try)
	default:
		for _, first := range seeds(n, k, steps) {
			try(grown(n, k, first, rate))
		}
	}
	return best
}

// eachSet calls f with every set of k of n items, in lexical order; the slice is used again.
func eachSet(n, k int, f func(set []int)) {
	set := make([]int, k)
	for i := range set {
		set[i] = i
	}
	for {
		f(set)
		i := k - 1
		for i >= 0 && set[i] == n-k+i {
			i--
		}
		if i < 0 {
			return
		}
		set[i]++
		for i++; i < k; i++ {
			set[i] = set[i-1] + 1
		}
	}
}

// sets returns how many sets of k of n items there are, or something above mostSets.
func sets(n, k int) int {
	count := 1
	for i := range min(k, n-k) {
		if count = count * (n - i) / (i + 1); count > mostSets {
			break
		}
	}
	return count
}

// mostSteps is how many items of sets rate looks at for one job, where not all sets are looked at:
// some 10 ms.
const mostSteps = 1_000_000

// seeds returns which items sets begin with that are not all looked at: all, or some at equal
// distances, or none, as steps allow.
func seeds(n, k, steps int) []int {
	count := min(n, steps/(n*k*k/2+1))
	items := make([]int, count)
	for i := range items {
		items[i] = i * n / count
	}
	return items
}

// grown returns a set of k items with first in it, ascending.
func grown(n, k, first int, rate func(set []int) score) []int {
	in := make([]bool, n)
	in[first] = true
	set := append(make([]int, 0, k), first)
	for len(set) < k {
		next := -1
		var least score
		for i := range n {
			if in[i] {
				continue
			}
			if s := rate(append(set, i)); next < 0 || s.before(&least) {
				next, least = i, s
			}
		}
		in[next] = true
		set = append(set, next)
	}
	set = set[:0]
	for i, chosen := range in {
		if chosen {
			set = append(set, i)
		}
	}
	return set
}
