package placement

// Policy says which of several equally good parts of the machine a job goes to.
type Policy int

const (
	// Pack fills the fullest one that still takes the job, so that others stay whole (load_packed
	// of PBS).
	Pack Policy = iota
	// Spread takes the emptiest one, so that jobs share caches and memory channels with few others
	// (load_balanced).
	Spread
)

// better reports whether a comes before b for a job that needs n units. Devices that would be left
// without a cpu near them count before the policy. Fewer devices count after it: a job that wants
// none does not need to be there.
func (p Policy) better(n int, a, b domain) bool {
	if x, y := a.stranded(n), b.stranded(n); x != y {
		return x < y
	}
	if a.free != b.free {
		return (a.free < b.free) == (p == Pack)
	}
	if a.idle != b.idle {
		return a.idle > b.idle
	}
	return a.devices < b.devices
}

// stranded returns how many devices of d would have no cpu near them if a job took n units.
func (d domain) stranded(n int) int {
	return max(0, d.devices-max(0, d.free-n))
}
