package main_test

import (
	"maps"
	"syscall"
	"time"
)

// strike carries out what a plan has for a step of the job's.
func (w *wreck) strike(s plannedStrike, job *liveJob) {
	time.Sleep(s.after)
	switch s.victim {
	case victimRun:
		w.strikeRun(job)
	case victimDaemon:
		w.strikeDaemon(s)
	default:
		w.strikeHook(s)
	}
}

func (w *wreck) strikeRun(job *liveJob) {
	for until := time.Now().Add(time.Minute); job.pid.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			return // its start has failed, which carryOut tells
		}
	}
	job.striking.Lock()
	defer job.striking.Unlock()
	job.struck.Store(true)
	job.limited.Store(false)
	job.signal(syscall.SIGKILL)
	w.count(byKill + " " + victimRun)
}

func (w *wreck) strikeDaemon(s plannedStrike) {
	pid := w.victim(w.daemonPID)
	if w.rest(s, pid) {
		return
	}
	sig := syscall.SIGKILL
	if s.means == byTerm {
		sig = syscall.SIGTERM
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = s.down
	if send(pid, sig) {
		clear(w.lives)
		if w.forgets() {
			for id := range w.live {
				w.harmed[id] = true
			}
			maps.Copy(w.harmed, w.unsaved)
		}
		w.count(s.means + " " + victimDaemon)
	}
}

// rest stops a victim for a while, if that is what is planned.
func (w *wreck) rest(s plannedStrike, pid int) bool {
	rest := s.rest
	switch s.means {
	case byStall:
		rest = stalled
		end := w.excuse(false)
		defer func() {
			w.recover()
			end()
		}()
	case byStop:
	default:
		return false
	}
	if send(pid, syscall.SIGSTOP) {
		w.count(s.means + " " + s.victim)
		time.Sleep(rest)
		send(pid, syscall.SIGCONT)
	}
	return true
}

// strikeHook does something to a hook, or to the daemon where the hook has crashed often.
func (w *wreck) strikeHook(s plannedStrike) {
	w.turns[s.victim].Lock()
	w.mu.Lock()
	often := w.lives[s.victim] == killsOfLife
	if !often && s.means != byStop {
		w.lives[s.victim]++
	}
	w.mu.Unlock()
	pid, killed := 0, 0
	if !often {
		pid = w.victim(func() int { return w.hookPID(s.victim) })
	}
	sig := syscall.SIGKILL
	switch {
	case often:
		w.strikeDaemon(plannedStrike{victim: victimDaemon, means: byKill})
	case w.rest(s, pid):
	default:
		if s.means == byTerm {
			sig = syscall.SIGTERM
		}
		if send(pid, sig) {
			w.count(s.means + " " + s.victim)
			if sig == syscall.SIGKILL {
				killed = pid
			}
		}
	}
	w.background.Go(func() {
		w.victim(func() int {
			if running := w.runningPID(s.victim); running != killed {
				return running
			}
			return 0 // the daemon does not know yet that it is dead
		})
		time.Sleep(killPause)
		w.turns[s.victim].Unlock()
	})
}
