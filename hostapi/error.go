package hostapi

import (
	"errors"
	"fmt"
)

// Kind sorts a hook's errors by who has to act. The kind decides what becomes of the job and of the
// node.
type Kind string

// The kinds, after the error classes of OpenPBS's own cgroups hook.
const (
	// KindJob: the request is impossible or malformed; its user has to change it. The job is
	// rejected (and deleted where the event allows).
	KindJob Kind = "job"
	// KindNode: this node's configuration or kernel lacks something; its administrator has to act.
	// fail_action applies.
	KindNode Kind = "node"
	// KindBusy: a resource is still in use; time heals it. The job goes back to the queue. PBS
	// counts no run of a job whose begin is rejected so (docs/openpbs-reference.md).
	KindBusy Kind = "busy"
	// KindTimeout: the hook's alarm rang. fail_action applies. Set by the host.
	KindTimeout Kind = "timeout"
	// KindInternal: a defect, a crash, or an errno nobody expected. fail_action applies. Any error
	// that is not an *Error has it.
	KindInternal Kind = "internal"
)

func (k Kind) known() bool {
	switch k {
	case KindJob, KindNode, KindBusy, KindTimeout, KindInternal:
		return true
	}
	return false
}

// Error is an error with a kind. Kind and text survive the way from a hook's process to the host,
// and wrapped errors do not.
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

// Errorf returns an *Error of that kind; format and args are those of fmt.Errorf, %w included.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of the first *Error in err's tree, "" for nil. An error without an
// *Error, or with one of no known kind, is KindInternal.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Kind.known() {
		return e.Kind
	}
	return KindInternal
}
