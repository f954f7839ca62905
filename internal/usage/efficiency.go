package usage

import "time"

// CPUEfficiency returns the part of the CPU time reserved for the job that it used: cput /
// (walltime*ncpus). It is above 1 for a job that exceeds its ncpus. It returns false if walltime or
// ncpus is not positive.
func CPUEfficiency(cput, walltime time.Duration, ncpus int) (float64, bool) {
	if walltime <= 0 || ncpus <= 0 || cput < 0 {
		return 0, false
	}
	return cput.Seconds() / (walltime.Seconds() * float64(ncpus)), true
}

// MemEfficiency returns the part of its memory that the job used: mem / limit, both in bytes. It
// returns false if limit is not positive.
func MemEfficiency(mem, limit int64) (float64, bool) {
	if limit <= 0 || mem < 0 {
		return 0, false
	}
	return float64(mem) / float64(limit), true
}
