package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// embedded is a backend without a socket before it: the caller is root.
type embedded struct{ *backend }

// Report is anybody's: the caller is root.
func (e embedded) Report(ctx context.Context, id string) (json.RawMessage, error) {
	return e.backend.Report(ctx, id, func(*hostapi.Job) bool { return true })
}

// Notices is anybody's, too.
func (e embedded) Notices(ctx context.Context, id string, after int, tell func(api.Notice)) error {
	for {
		lines, all, err := e.backend.Notices(ctx, id, after, func(*hostapi.Job) bool { return true })
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		after = all
		tell(api.Notice{Seq: all, JobStderr: lines})
	}
}
