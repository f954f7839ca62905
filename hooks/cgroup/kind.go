package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// beyondNode is the cause of a KindJob error: the job requests more than this node could give it
// even when empty.
type beyondNode struct{ err error }

func (e *beyondNode) Error() string { return e.err.Error() }
func (e *beyondNode) Unwrap() error { return e.err }

// beyond is like hostapi.Errorf, with beyondNode as the cause.
func beyond(format string, args ...any) error {
	return hostapi.Errorf(hostapi.KindJob, "%w", &beyondNode{fmt.Errorf(format, args...)})
}

// holdBeyond turns such an error into a rejection that holds the job. begin is the job's begin
// event.
//
// Under PBS the scheduler chose this node. It may not know yet that the node lost a GPU or that its
// configuration was narrowed. So the job is not to blame, but without the hold such a node would
// drain the queue. fail_action does not apply either: users must not be able to put nodes offline
// (openpbs pbs_cgroups.PY, CgroupLimitError).
//
// Other errors are returned unchanged. So are those of `hookhost run`, where the user chose the
// node.
func holdBeyond(begin *hostapi.Request, err error) (*hostapi.Outcome, error) {
	_, is := errors.AsType[*beyondNode](err)
	if !is || begin == nil || begin.MoM != nil {
		return nil, err
	}
	return &hostapi.Outcome{Reject: true, Message: err.Error(), OnReject: hostapi.JobActionHold}, nil
}

// kindOf returns the kind of an error of a job's cgroup. Some of them pass: the job is ending, it
// still uses memory that it should give back, or somebody has created its cgroup by hand. So does a
// memory map that is held. A request that is too long for a mark (setxattr(2)) is the job's fault.
func kindOf(err error) hostapi.Kind {
	for _, passes := range []error{cgroup.ErrNotFound, cgroup.ErrInUse, cgroup.ErrExists, proc.ErrHangs} {
		if errors.Is(err, passes) {
			return hostapi.KindBusy
		}
	}
	if errors.Is(err, unix.E2BIG) {
		return hostapi.KindJob
	}
	return hostapi.KindNode
}
