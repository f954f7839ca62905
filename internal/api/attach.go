package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hookhost/hookhost/hostapi"
)

// AttachRequest asks to make a process part of a job.
type AttachRequest struct {
	Job string `json:"job,omitempty"` // "" for the only job that the process's user has here
	PID int    `json:"pid"`
}

// Attached is the answer: the job, and the outcome of its hooks. A rejected process is not part of
// the job.
type Attached struct {
	Job     string           `json:"job"`
	Outcome *hostapi.Outcome `json:"outcome"`
}

// attach adds a process to a job of its own user. A job is charged for its processes and may kill
// them. So a caller other than root may only do that with its own processes.
func (s *Server) attach(peer Peer, r *http.Request) (any, error) {
	var in AttachRequest
	if err := decodeBody(r.Body, &in); err != nil {
		return nil, err
	}
	if in.Job != "" {
		if err := hostapi.CheckJobID(in.Job); err != nil {
			return nil, malformed(err)
		}
	}
	if in.PID > 0 {
		var err error
		if in.PID, err = s.numberFor(peer, in.PID); err != nil {
			return nil, err
		}
	}
	if in.PID <= 1 {
		return nil, malformed(fmt.Errorf("attach pid %d: not a process that a job can have", in.PID))
	}
	before, err := s.process(in.PID)
	if err != nil {
		return nil, err
	}
	if !peer.may(before.UID) {
		return nil, notOwner(peer, in.PID, before.UID)
	}
	job, err := s.jobFor(r.Context(), peer, in, before.UID)
	if err != nil {
		return nil, err
	}
	outcome, err := s.carryOut(peer, r, &hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: in.PID})
	if err != nil {
		return nil, err
	}
	// The hooks got only a pid. It was the right one if the process still has it.
	err = s.Processes.Check(hostapi.ProcessID{PID: in.PID, StartTime: before.StartTime})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, noProcess(in.PID)
	case err != nil:
		return nil, fmt.Errorf("attach pid %d: look whether it is still that process: %w", in.PID, err)
	}
	return Attached{Job: job.ID, Outcome: outcome}, nil
}

// carryOut carries out the event. If the caller is root, it continues like any event of root. If
// the caller is a user, it ends with the connection as long as it waits, and with this server. A
// caller whose connection breaks asks the next server.
func (s *Server) carryOut(peer Peer, r *http.Request, req *hostapi.Request) (*hostapi.Outcome, error) {
	if peer.root() {
		return s.Events.Handle(context.WithoutCancel(r.Context()), req)
	}
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	outcome, err := s.Events.HandleUser(ctx, req)
	if err != nil && ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	return outcome, err
}

// numberFor returns the pid here of the process that the peer calls pid. In a container the pids
// differ; the kernel only gives the caller's own.
func (s *Server) numberFor(peer Peer, pid int) (int, error) {
	n, err := s.Processes.Number(peer.PID, pid)
	if errors.Is(err, ErrNotFound) {
		return 0, &Error{Status: http.StatusNotFound, Kind: KindTMNoProc,
			Message: fmt.Sprintf("attach pid %d: no such process: "+
				"a caller in another pid namespace can only attach itself", pid)}
	}
	return n, err
}

func (s *Server) process(pid int) (Process, error) {
	p, err := s.Processes.Process(pid)
	if errors.Is(err, ErrNotFound) {
		return Process{}, noProcess(pid)
	}
	return p, err
}

// jobFor returns the job that uid's process will join. Only a job that can run programs accepts
// processes.
func (s *Server) jobFor(ctx context.Context, peer Peer, in AttachRequest, uid int) (*hostapi.Job, error) {
	jobs, err := s.candidates(ctx, peer, in.Job)
	if err != nil {
		return nil, err
	}
	var found []*hostapi.Job
	for _, j := range jobs {
		if j.Phase != hostapi.PhasePrerun && j.Phase != hostapi.PhaseRunning {
			continue
		}
		switch {
		case in.Job == "" && j.Job.Owner.UID == uid:
			found = append(found, j.Job)
		case in.Job != "" && j.Job.ID == in.Job && j.Job.Owner.UID != uid:
			return nil, notOwner(peer, in.PID, uid)
		case in.Job != "" && j.Job.ID == in.Job:
			return j.Job, nil
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, &Error{Status: http.StatusConflict, Kind: KindTMNotFound,
			Message: fmt.Sprintf("attach pid %d: uid %d has %d jobs here, name one", in.PID, uid, len(found))}
	case in.Job != "":
		return nil, noJob(in)
	}
	return nil, &Error{Status: http.StatusNotFound, Kind: KindTMNotFound,
		Message: fmt.Sprintf("attach pid %d: uid %d has no job here", in.PID, uid)}
}

// candidates returns the jobs that may be meant and that the peer may know of. If a job is named,
// only that job is read. Otherwise all are, in the user's turn.
func (s *Server) candidates(ctx context.Context, peer Peer, id string) ([]Job, error) {
	if id != "" {
		j, err := s.Jobs.Job(ctx, id)
		switch {
		case err == nil && j.Job != nil && peer.sees(j.Job):
			return []Job{j}, nil
		case err == nil, errors.Is(err, ErrNotFound):
			return nil, nil
		}
		// Reading all jobs fails too, or reveals no more to a stranger than for any other job.
	}
	defer s.turn(ctx, &s.questions, peer)()
	return s.visible(ctx, peer)
}

func noJob(in AttachRequest) error {
	return &Error{Status: http.StatusNotFound, Kind: KindTMNotFound,
		Message: fmt.Sprintf("attach pid %d: job %s: not found", in.PID, in.Job)}
}

// notOwner names the owner of a process only to root: /proc may hide it, and the API must not
// reveal it.
func notOwner(peer Peer, pid, uid int) error {
	whose := "another user"
	if peer.root() {
		whose = fmt.Sprintf("uid %d", uid)
	}
	return &Error{Status: http.StatusForbidden, Kind: KindTMOwner,
		Message: fmt.Sprintf("attach pid %d: it belongs to %s", pid, whose)}
}

func noProcess(pid int) error {
	return &Error{Status: http.StatusNotFound, Kind: KindTMNoProc,
		Message: fmt.Sprintf("attach pid %d: no such process", pid)}
}
