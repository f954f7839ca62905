package hostapi

import (
	"errors"
	"fmt"
)

// Kind classifies a hook's errors by who has to act. It decides what becomes of the job and of the
// node.
type Kind string

// The kinds, after the error classes of OpenPBS's own cgroups hook.
const (
	// KindJob: the request is impossible or malformed, and its user has to change it. The job is
	// rejected (and deleted where the event allows).
	KindJob Kind = "job"
	// KindNode: this node's configuration or kernel lacks something, and its administrator has to
	// act. The hook's attribute on_node_error applies.
	KindNode Kind = "node"
	// KindBusy: a resource is still in use, and will be free later. The job goes back to the queue.
	// If begin is rejected for this reason, PBS does not count a run (docs/openpbs-reference.md).
	KindBusy Kind = "busy"
	// KindTimeout: the hook's alarm rang. Its attribute on_alarm applies. Set by the host.
	KindTimeout Kind = "timeout"
	// KindInternal: a defect, a crash, or an unexpected errno. The hook's attribute on_defect
	// applies. Any error that is not an *Error has this kind.
	KindInternal Kind = "internal"
)

func (k Kind) known() bool {
	switch k {
	case KindJob, KindNode, KindBusy, KindTimeout, KindInternal:
		return true
	}
	return false
}

// Error is an error with a kind. Kind and text reach the host from a hook's process; wrapped errors
// do not.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Kind) + " error"
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error of that kind; format and args are as for fmt.Errorf, including %w.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of the first *Error in err's tree, "" for nil. An error without an
// *Error, or whose kind is unknown, is KindInternal.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Kind.known() {
		return e.Kind
	}
	return KindInternal
}
