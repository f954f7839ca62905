package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
)

// ErrNotFound is the error, wrapped, of a backend for a job or process that does not exist.
var ErrNotFound = errors.New("not found")

// ErrDamaged is the error, wrapped, of a backend if reports of finished jobs are damaged.
var ErrDamaged = errors.New("damaged")

// Kinds of errors beside those of hostapi.Kind.
const (
	KindMalformed = "malformed" // 400: the request itself is wrong
	KindDenied    = "denied"    // 403: the caller may not
	KindNotFound  = "not_found" // 404: there is none, or the caller may not know of it
	KindTooLarge  = "too_large" // 413
	KindLogin     = "login"     // 403: a login is refused; the text is for the user
	KindDamaged   = "damaged"   // 500: a report can no longer be read; 200: of a list
)

// Kinds of an attach's errors, named as in PBS's task manager (tm_.h), so that pbs_attach's
// messages stay the same.
const (
	KindTMNotFound = "TM_ENOTFOUND" // 404: no such job; 409: several jobs and none was named
	KindTMNoProc   = "TM_ENOPROC"   // 404: no such process
	KindTMOwner    = "TM_EOWNER"    // 403: the process does not belong to the job's owner
	KindTMHook     = "TM_EHOOK"     // a hook rejected the process; made by the client
)

// Error is the host's answer when it refuses or fails: the JSON {"error": "...", "kind": "..."} and
// its HTTP status. An error of a Client without an *Error in its tree comes from the connection.
type Error struct {
	Status  int    `json:"-"`
	Message string `json:"error"`
	Kind    string `json:"kind"`
}

func (e *Error) Error() string { return e.Message }

// TM returns the task manager's name of the error (tm_.h).
func (e *Error) TM() string {
	switch e.Kind {
	case KindTMNotFound, KindTMNoProc, KindTMOwner, KindTMHook:
		return e.Kind
	}
	return "TM_ESYSTEM"
}

// Unwrap restores an event's error with the kind that its hook gave it, so that hostapi.KindOf
// works on both sides.
func (e *Error) Unwrap() error {
	if slices.Contains(eventKinds, hostapi.Kind(e.Kind)) {
		return &hostapi.Error{Kind: hostapi.Kind(e.Kind), Err: errors.New(e.Message)}
	}
	switch e.Kind {
	case KindMalformed, KindTooLarge:
		return &hostapi.Error{Kind: hostapi.KindJob, Err: errors.New(e.Message)}
	case KindNotFound:
		return ErrNotFound
	case KindDamaged:
		return ErrDamaged
	}
	return nil
}

// isRefusal reports whether the call was refused because of the caller, not because of the request.
func (e *Error) isRefusal() bool {
	return e.Status == http.StatusForbidden ||
		slices.Contains([]string{KindTMNotFound, KindTMNoProc, KindTMOwner}, e.Kind)
}

var eventKinds = []hostapi.Kind{hostapi.KindJob, hostapi.KindNode, hostapi.KindBusy, hostapi.KindTimeout,
	hostapi.KindInternal}

// errorOf returns err with its status.
func errorOf(err error) *Error {
	var e *Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &tooLarge):
		return &Error{Status: http.StatusRequestEntityTooLarge, Kind: KindTooLarge, Message: err.Error()}
	case errors.Is(err, ErrNotFound):
		return &Error{Status: http.StatusNotFound, Kind: KindNotFound, Message: err.Error()}
	case errors.Is(err, ErrDamaged):
		return &Error{Status: http.StatusInternalServerError, Kind: KindDamaged, Message: err.Error()}
	}
	kind := hostapi.KindOf(err)
	status := http.StatusInternalServerError
	switch kind {
	case hostapi.KindJob:
		status = http.StatusBadRequest
	case hostapi.KindBusy:
		status = http.StatusConflict
	}
	return &Error{Status: status, Kind: string(kind), Message: err.Error()}
}

func malformed(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return err
	}
	return &Error{Status: http.StatusBadRequest, Kind: KindMalformed, Message: err.Error()}
}

// decodeError reads the body of an answer that is not 200.
func decodeError(status int, body []byte) *Error {
	e := &Error{Status: status}
	if json.Unmarshal(body, e) != nil || e.Message == "" {
		e.Message = "host answered " + http.StatusText(status)
		e.Kind = string(hostapi.KindInternal)
	}
	return e
}
