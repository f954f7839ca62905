package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/hookhost/hookhost/hostapi"
)

// event carries out one event. The event continues if the caller goes away: half an event is worse
// than one whose caller has gone. Its hooks' alarms end it in any case.
func (s *Server) event(_ Peer, r *http.Request) (any, error) {
	req, err := hostapi.DecodeRequest(r.PathValue("event"), r.Body, maxEvent)
	if err != nil {
		return nil, malformed(err)
	}
	return s.Events.Handle(context.WithoutCancel(r.Context()), req)
}

type newJob struct {
	ID string `json:"id"`
}

func (s *Server) newJobID(_ Peer, r *http.Request) (any, error) {
	id, err := s.Node.NewJobID(r.Context())
	return newJob{ID: id}, err
}

type jobList struct {
	Jobs []Job `json:"jobs"`
}

func (s *Server) jobs(peer Peer, r *http.Request) (any, error) {
	jobs, err := s.visible(r.Context(), peer)
	return jobList{Jobs: jobs}, err
}

// visible returns the jobs that the peer may know of, never nil.
func (s *Server) visible(ctx context.Context, peer Peer) ([]Job, error) {
	all, err := s.Jobs.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, 0, len(all))
	for _, j := range all {
		if j.Job != nil && peer.sees(j.Job) {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// job answers with a job that lives here.
func (s *Server) job(peer Peer, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := hostapi.CheckJobID(id); err != nil {
		return nil, malformed(err)
	}
	j, err := s.Jobs.Job(r.Context(), id)
	if err == nil && !peer.sees(j.Job) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, hidden(peer, id, err)
	}
	return j, nil
}

// mine answers with the job that the caller is in. A caller that waits for its answer still has its
// pid. A later process with that pid learns of no job that its user could not list.
func (s *Server) mine(peer Peer, r *http.Request) (any, error) {
	j, err := s.Processes.JobOf(r.Context(), peer.PID)
	if err == nil && (j.Job == nil || !peer.may(j.Job.Owner.UID)) {
		err = ErrNotFound
	}
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("job of process %d: %w", peer.PID, ErrNotFound)
	}
	return j, err
}

func (s *Server) report(peer Peer, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := hostapi.CheckJobID(id); err != nil {
		return nil, malformed(err)
	}
	report, err := s.Jobs.Report(r.Context(), id, peer.sees)
	return report, hidden(peer, id, err)
}

// hidden returns the same text whether the job does not exist or belongs to another user, whatever
// the backend wrapped around its error. Any other failure could itself reveal to a stranger that
// the job exists.
func hidden(peer Peer, id string, err error) error {
	if err == nil || peer.root() && errorOf(err).Kind != KindNotFound || errorOf(err).Kind == KindMalformed {
		return err
	}
	return fmt.Errorf("job %s: %w", id, ErrNotFound)
}

func (s *Server) node(peer Peer, r *http.Request) (any, error) {
	info, err := s.Node.Node(r.Context())
	if !peer.root() {
		// Only root may see the hooks, their errors and the configuration.
		info.Hooks, info.Refused, info.Config, err = nil, nil, nil, nil
	}
	return info, err
}

func (s *Server) reload(_ Peer, r *http.Request) (any, error) {
	return struct{}{}, s.Node.Reload(context.WithoutCancel(r.Context()))
}

func (s *Server) examine(Peer, *http.Request) (any, error) {
	s.Doctor.Examine()
	return struct{}{}, nil
}

// decodeBody reads exactly one JSON value.
func decodeBody(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	if err := d.Decode(v); err != nil {
		return malformed(fmt.Errorf("decode request: %w", err))
	}
	if _, err := d.Token(); err != io.EOF {
		return malformed(fmt.Errorf("decode request: more than one JSON value"))
	}
	return nil
}
