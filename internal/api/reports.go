package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// reports streams the reports of the finished jobs that the caller may see, a line each: the ledger may hold more than
// anybody should keep in memory. An answer that is not whole is broken off.
func (s *Server) reports(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	control.SetWriteDeadline(time.Time{})
	peer, err := s.admit(r, usersOnly)
	if err == nil && s.Reports == nil {
		err = noCall(r)
	}
	if err != nil {
		s.answer(w, r, nil, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxSmall)
	control.SetReadDeadline(time.Time{}) // as in notices
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	begun := false
	err = s.Reports.Finished(ctx, peer.sees, func(report json.RawMessage) bool {
		if !begun {
			w.Header().Set("Content-Type", "application/json")
		}
		begun = true
		control.SetWriteDeadline(time.Now().Add(s.timeouts.answer))
		_, err := w.Write(append(slices.Clip(report), '\n'))
		return err == nil && ctx.Err() == nil
	})
	switch {
	case err != nil && !begun && ctx.Err() == nil:
		s.answer(w, r, nil, err)
	case err != nil || ctx.Err() != nil:
		panic(http.ErrAbortHandler)
	case !begun:
		w.Header().Set("Content-Type", "application/json")
	}
}

// Reports calls yield with the report of each finished job that the caller may see, oldest first, until it returns false.
func (c *Client) Reports(ctx context.Context, yield func(json.RawMessage) bool) error {
	return stream(ctx, c, "/v1/reports", "reports", yield)
}
