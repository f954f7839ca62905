package config

// Pids configures the pids controller.
type Pids struct {
	Enabled        bool    `toml:"enabled" json:"enabled"`
	Max            int64   `toml:"max" json:"max"`
	ReservePercent float64 `toml:"reserve_percent" json:"reserve_percent"`
}

// PidsByCPUs is the Max of a job whose limit depends on its cpus: see Part.
const PidsByCPUs = -1

// LeastPart is the minimum number of tasks of each job whose limit depends on its cpus. A program
// on one cpu with the threads of its libraries has dozens, and a large build hundreds.
const LeastPart = 1024

// Left returns how many tasks all jobs together may have on a node with this total.
func (p Pids) Left(total int64) int64 {
	return total - int64(float64(total)*p.ReservePercent/100)
}

// Part returns how many tasks a job with ncpus of the node's cpus may have, if all jobs together
// may have all. It is at least LeastPart, and at most all.
func (p Pids) Part(all int64, ncpus, cpus int) int64 {
	part := int64(0)
	if cpus > 0 {
		part = all * int64(min(ncpus, cpus)) / int64(cpus)
	}
	return min(all, max(part, LeastPart))
}
