package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Notice is what hooks told about a job between events.
type Notice struct {
	// Seq is how many lines were told in all, these included: what to ask on after.
	Seq int `json:"seq"`
	// JobStderr holds lines for the job's standard error.
	JobStderr []string `json:"job_stderr"`
}

// notices streams a job's notices, a line each. The answer ends when the job is over. If the host
// stops or fails before that, the answer is broken off: nobody takes the one for the other. While
// there is no notice nothing is sent.
func (s *Server) notices(peer Peer, w http.ResponseWriter, r *http.Request) {
	control, ctx := http.NewResponseController(w), r.Context()
	id := r.PathValue("id")
	after, err := afterOf(r)
	if err == nil {
		if err = hostapi.CheckJobID(id); err != nil {
			err = malformed(err)
		}
	}
	if err == nil {
		err = s.asksOfOwn(ctx, peer, id)
	}
	for begun := false; ; begun = true {
		var lines []string
		if err == nil {
			lines, after, err = s.Jobs.Notices(ctx, id, after, peer.sees)
		}
		switch {
		case errors.Is(err, io.EOF):
			w.Header().Set("Content-Type", "application/json")
			return
		case err != nil && (begun || ctx.Err() != nil):
			panic(http.ErrAbortHandler)
		case err != nil:
			s.answer(w, r, nil, hidden(peer, id, err))
			return
		}
		b, err := json.Marshal(Notice{Seq: after, JobStderr: lines})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		control.SetWriteDeadline(time.Now().Add(s.timeouts.answer))
		if _, err := w.Write(append(b, '\n')); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		control.SetWriteDeadline(time.Time{})
	}
}

// asksOfOwn fails if there is no such job of the caller's. The check waits in line as other
// questions do, whatever waits for notices of the job then.
func (s *Server) asksOfOwn(ctx context.Context, peer Peer, id string) error {
	leave, err := s.questions.enter(ctx, peer)
	if err != nil {
		return err
	}
	defer leave()
	j, err := s.Jobs.Job(ctx, id)
	if err == nil && !peer.sees(j.Job) {
		err = ErrNotFound
	}
	return err
}

func afterOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, malformed(fmt.Errorf("after=%q: want a number", text))
	}
	return n, nil
}
