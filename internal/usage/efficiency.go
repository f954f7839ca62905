package usage

import "time"

// CPUEfficiency returns which part of the CPU time that was set apart for the job it used: cput /
// (walltime*ncpus). The part is above 1 for a job that is not confined to its ncpus. False when
// walltime or ncpus is not positive.
func CPUEfficiency(cput, walltime time.Duration, ncpus int) (float64, bool) {
	if walltime <= 0 || ncpus <= 0 || cput < 0 {
		return 0, false
	}
	return cput.Seconds() / (walltime.Seconds() * float64(ncpus)), true
}

// MemEfficiency returns which part of its memory the job used: mem / limit, both in bytes. False
// when limit is not positive.
func MemEfficiency(mem, limit int64) (float64, bool) {
	if limit <= 0 || mem < 0 {
		return 0, false
	}
	return float64(mem) / float64(limit), true
}
