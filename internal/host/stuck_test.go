package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// TestRoomOfJobsThatAreStuckAtTheirStart has pbs_mom die over a job's start. The next one has the
// job and does not go on with the start. The server gives the job's cpus to another.
func TestRoomOfJobsThatAreStuckAtTheirStart(t *testing.T) {
	dead, now := hostapi.ProcessID{PID: 901, StartTime: 1}, hostapi.ProcessID{PID: 902, StartTime: 2}
	for _, tt := range []struct {
		name     string
		starts   bool  // a child of the dead one is at it, or MoM has a task
		runs     bool  // the job has a process
		err      error // of both questions
		mom      hostapi.ProcessID
		change   func(*jobstate.Record)
		launched bool
		room     bool
		events   string
	}{
		{name: "before its launch", mom: now, room: true, events: "abort"},
		{name: "its program has ended meanwhile", mom: now, launched: true, room: true, events: "epilogue end"},
		{name: "a program of it runs", mom: now, launched: true, runs: true},
		{name: "the start may go on", mom: now, starts: true},
		{name: "nobody can tell", mom: now, err: errors.New("input/output error")},
		{name: "the same pbs_mom starts it", mom: dead},
		{name: "the other pbs_mom lives", mom: now,
			change: func(r *jobstate.Record) { r.BegunBy = hostapi.ProcessID{PID: 903, StartTime: 3} }},
		{name: "who has begun it is not known", mom: now,
			change: func(r *jobstate.Record) { r.BegunBy = hostapi.ProcessID{} }},
		{name: "who asks is not known"},
		{name: "a pbs_mom of another home", mom: now, change: func(r *jobstate.Record) { r.MoMHome = "/other" }},
		{name: "the part of a sister", mom: now, change: func(r *jobstate.Record) { r.Job.MotherSuperior = false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
			files := n.options
			n.options = func(o *Options) {
				files(o)
				o.PBSStarts = func(*hostapi.Job, string, hostapi.ProcessID) (bool, error) { return tt.starts, tt.err }
				o.Populated = func(string) (bool, error) { return tt.runs, tt.err }
			}
			n.procs.add(now)
			n.procs.add(hostapi.ProcessID{PID: 903, StartTime: 3})
			once := fmt.Sprintf("mode = 'error'\nvalue = 'busy'\nevent = 'execjob_begin'\nonce = %q",
				filepath.Join(n.dir, "once"))
			n.hook("b", "misbehave", once, "order=2")
			h := n.open()
			phase := hostapi.PhasePrerun
			if tt.launched {
				phase = hostapi.PhaseRunning
			}
			n.put("1.srv", phase, 5*time.Second, func(r *jobstate.Record) {
				r.BegunBy, r.Kept = dead, true
				if tt.change != nil {
					tt.change(r)
				}
			})
			out, err := h.HandlePBS(t.Context(), requestOf(hostapi.EventBegin, "2.srv"), "", tt.mom)
			if err != nil || out.Reject == tt.room || n.events("1.srv") != tt.events ||
				(n.record("1.srv") == nil) != tt.room {
				t.Errorf("%+v, %v, events %q, record %+v", out, err, n.events("1.srv"), n.record("1.srv"))
			}
			if rec := n.record("2.srv"); tt.room && (rec == nil || rec.BegunBy != tt.mom) {
				t.Errorf("record of the next: %+v", rec)
			}
		})
	}
}
