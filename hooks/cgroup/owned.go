package main

import "github.com/hookhost/hookhost/hostapi"

// ownedJob is what this process knows of a job that it has begun or was told of.
type ownedJob struct {
	phase     hostapi.Phase
	killDelay *int
}

// own notes that this process knows the job. No sweep takes the job until disown. own changes
// nothing of a job that is known: the events of the job say more than a list, which may be old.
func (h *hook) own(job *hostapi.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.owned[job.ID]; !known {
		h.owned[job.ID] = ownedJob{phase: job.Phase, killDelay: job.KillDelay}
	}
}

func (h *hook) disown(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.owned, id)
	delete(h.ranks, id)
	delete(h.metered, id)
	delete(h.charts, id)
	delete(h.unsettled, id)
}

func (h *hook) owns(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.owned[id]
	return known
}

// setPhase notes the phase that an event brings the job to.
func (h *hook) setPhase(id string, phase hostapi.Phase) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.owned[id]
	o.phase = phase
	h.owned[id] = o
}

// phaseOf returns the job's phase, "" of a job that this process does not know.
func (h *hook) phaseOf(id string) hostapi.Phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned[id].phase
}

// setKillDelay notes the job's kill_delay, if it has one.
func (h *hook) setKillDelay(id string, delay *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delay == nil {
		return
	}
	o := h.owned[id]
	o.killDelay = delay
	h.owned[id] = o
}
