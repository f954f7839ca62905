package main

import (
	"fmt"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/stray"
)

// act handles a process as configured in mpi.strays.
func (s *scan) act(k *sighting, f stray.Facts, v stray.Verdict) error {
	switch v.Class {
	case stray.Unknown:
		s.unknown(k, f)
	case stray.Certain:
		// The job may be in another list. A container may belong to a job that is not known yet.
		if s.list[v.Job] == nil || s.partial && v.Match == stray.ByContainer {
			k.judged = ""
			return nil
		}
		s.advise(v.Job, f)
		switch {
		case s.action == reportStrays:
			s.report(k, v.Job, f, "it belongs to the job by its "+v.Match)
			k.next = s.scans + farthest
		case s.action == killStrays:
			return s.kill(k, f, v)
		case s.scans >= k.next:
			s.adopt(k, f, v)
		}
	}
	return nil
}

// advise adds the setting that keeps containers in a job to its report, once.
func (s *scan) advise(job string, f stray.Facts) {
	if setting := stray.ContainerSetting(f.Cgroup); setting != "" && !s.advised[job] {
		s.advised[job] = true
		s.note(job, "a container was outside of the job, in a cgroup of its owner's systemd: %s prevents that", setting)
	}
}

// unknown reports a process that cannot be assigned to a job with certainty.
func (s *scan) unknown(k *sighting, f stray.Facts) {
	if s.partial { // it may belong to a job that is not known yet
		k.judged = ""
		return
	}
	s.report(k, s.onlyJob(k.uid), f, "nothing says what it belongs to")
}

// adopt hands a process over to the host after checking it once more.
func (s *scan) adopt(k *sighting, f stray.Facts, v stray.Verdict) {
	session := sessionOf{v.Job, f.Session}
	u := s.update(v.Job)
	if f.Session > 0 && s.sessions[session] || len(u.Strays) >= hostapi.MaxStrays {
		return
	}
	if _, again, err := s.judge(f.Process); err != nil || again != v {
		k.judged = ""
		return
	}
	s.sessions[session] = true
	u.Strays = append(u.Strays,
		hostapi.Stray{Process: f.ID(), Comm: hostapi.Printable(f.Comm), Match: v.Match})
	s.handedOver(k)
}

// handedOver delays the next attempt to hand over the process, because the host may have refused
// it.
func (s *scan) handedOver(k *sighting) {
	k.tries++
	k.next = s.scans + min(1<<min(k.tries-1, 10), farthest)
	if k.tries == 1 {
		s.moved[k.uid]++
	}
}

// kill kills a process that was outside its job before and still is.
func (s *scan) kill(k *sighting, f stray.Facts, v stray.Verdict) error {
	if k.doomed.IsZero() {
		k.doomed = s.now
	}
	if s.now.Sub(k.doomed) < stray.Young {
		return nil
	}
	h, err := proc.Open(s.procfs, f.ID())
	if err != nil {
		return err
	}
	defer h.Close()
	if _, again, err := s.judge(f.Process); err != nil || again != v {
		return err
	}
	if err := h.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	s.log.WithField("job", v.Job).Warnf("killed pid %d (%s), which was outside of its job: %s", f.PID,
		hostapi.Printable(f.Comm), v.Match)
	if s.told[v.Job]++; s.told[v.Job] <= maxTold {
		s.note(v.Job, "killed pid %d (%s), which was outside of the job: it belonged to it by its %s", f.PID,
			hostapi.Printable(f.Comm), v.Match)
	}
	return nil
}

// report logs, once, a process that is left alone. job is "" if the process may belong to one of
// several jobs.
func (s *scan) report(k *sighting, job string, f stray.Facts, why string) {
	if k.found {
		return
	}
	if job == "" {
		k.found = true
		s.log.Infof("pid %d (%s) of uid %d is outside of every job: %s", f.PID, hostapi.Printable(f.Comm), f.UID, why)
		return
	}
	if s.list[job] == nil {
		k.judged = ""
		return
	}
	k.found = true
	s.found[job]++
	if s.told[job]++; s.told[job] <= maxTold {
		s.note(job, "pid %d (%s) of the job's owner is outside of the job: %s", f.PID, hostapi.Printable(f.Comm), why)
	}
}

// onlyJob returns the user's job on this host if there is exactly one.
func (s *scan) onlyJob(uid int) string {
	id := ""
	for _, j := range s.jobs {
		if j.UID != uid {
			continue
		}
		if id != "" {
			return ""
		}
		id = j.ID
	}
	return id
}

func (s *scan) note(job, format string, args ...any) {
	u := s.update(job)
	u.Notes = append(u.Notes, fmt.Sprintf(format, args...))
}

func (s *scan) update(job string) *hostapi.JobUpdate {
	u := s.updates[job]
	if u == nil {
		u = &hostapi.JobUpdate{}
		s.updates[job] = u
	}
	return u
}
