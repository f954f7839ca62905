package placement

// Policy decides which of several equally good parts of the machine a job gets.
type Policy int

const (
	// Pack chooses the fullest part in which the job still fits, so that others remain whole
	// (load_packed in PBS).
	Pack Policy = iota
	// Spread chooses the emptiest part, so that jobs share caches and memory channels with few
	// others (load_balanced).
	Spread
)

// better reports whether a comes before b for a job that needs n units. Devices that would be left
// without a cpu near them matter more than the policy. The number of devices matters less: a job
// without devices should leave cpus near devices to others.
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
