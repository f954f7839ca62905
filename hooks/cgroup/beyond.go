package main

import (
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
)

// beyondNode is the cause of an error of KindJob. The job asks for more than this node has in all,
// even when no other job is on it.
type beyondNode struct{ err error }

func (e *beyondNode) Error() string { return e.err.Error() }
func (e *beyondNode) Unwrap() error { return e.err }

// beyond is hostapi.Errorf for such a cause.
func beyond(format string, args ...any) error {
	return hostapi.Errorf(hostapi.KindJob, "%w", &beyondNode{fmt.Errorf(format, args...)})
}

// holdBeyond makes a rejection that holds the job of an error that it asks for more than this node
// has. begin is the job's begin. Under PBS the scheduler chose this node, and may know it as it was
// before it lost a GPU or its configuration was narrowed. So the job is not to blame, and such a
// node must not empty the queue. fail_action does not act either, for users must not be able to put
// nodes offline (openpbs pbs_cgroups.PY, CgroupLimitError). Other errors stay as they are, as does
// that of `hookhost run`, whose user has chosen the node.
func holdBeyond(begin *hostapi.Request, err error) (*hostapi.Outcome, error) {
	_, is := errors.AsType[*beyondNode](err)
	if !is || begin == nil || begin.MoM != nil {
		return nil, err
	}
	return &hostapi.Outcome{Reject: true, Message: err.Error(), OnReject: hostapi.JobActionHold}, nil
}
