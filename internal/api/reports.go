package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/report"
)

// damagedTrailer is the trailer of a list with reports that can no longer be read. It describes
// them as far as they are known.
const damagedTrailer = "Hookhost-Damaged"

// reports streams the reports that the caller may see and that the query chooses (report.Filter),
// one per line. They may not fit into memory. An incomplete answer is broken off.
func (s *Server) reports(peer Peer, w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	filter, err := report.ParseFilter(r.URL.Query())
	if err != nil {
		s.answer(w, r, nil, malformed(fmt.Errorf("query: %w", err)))
		return
	}
	defer s.turn(ctx, &s.lists, peer)()
	begun := false
	begin := func() {
		if !begun {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Trailer", damagedTrailer)
		}
		begun = true
	}
	err = s.Reports.Find(ctx, filter, peer.may, func(report json.RawMessage) bool {
		begin()
		control.SetWriteDeadline(time.Now().Add(s.timeouts.answer))
		_, err := w.Write(append(slices.Clip(report), '\n'))
		return err == nil && ctx.Err() == nil
	})
	damaged := errors.Is(err, ErrDamaged)
	switch {
	case err != nil && !damaged && !begun && ctx.Err() == nil:
		s.answer(w, r, nil, err)
	case err != nil && !damaged || ctx.Err() != nil:
		panic(http.ErrAbortHandler)
	default:
		begin()
		if damaged {
			w.Header().Set(damagedTrailer, damageFor(peer, err))
		}
	}
}

// damageFor returns what a caller may know about its own damaged reports. Only root learns where
// they are.
func damageFor(p Peer, err error) string {
	if p.root() {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "some of your reports of finished jobs are damaged"
}

// Reports calls yield with each report that the filter chooses and the caller may see, in the
// filter's order, until yield returns false. After the last report, the error is ErrDamaged if some
// can no longer be read.
func (c *Client) Reports(ctx context.Context, filter report.Filter, yield func(json.RawMessage) bool) error {
	path := "/v1/reports"
	if query := filter.Values().Encode(); query != "" {
		path += "?" + query
	}
	trailer, err := stream(ctx, c, path, "reports", yield)
	if text := trailer.Get(damagedTrailer); err == nil && text != "" {
		return &Error{Status: http.StatusOK, Kind: KindDamaged, Message: text}
	}
	return err
}
