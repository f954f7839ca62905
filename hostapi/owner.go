package hostapi

import (
	"reflect"
	"strings"
)

// OfOwner returns the part of an outcome that is the job's owner's to say, and the keys that are
// set in the rest. A hook with user=pbsuser runs as that user. He can stop it, and trace it if he
// can read its program. So its answer counts for no more than his:
//
//   - reject, message and job_action: he may give up his own job
//   - job_stderr: it is his own file
//   - state: this hook alone gets it back, and as the same user
//
// Vnodes, what is accounted for, other jobs, timers, and what a program starts with are not his.
func (o *Outcome) OfOwner() (own *Outcome, rest []string) {
	own = &Outcome{Reject: o.Reject, Message: o.Message, OnReject: o.OnReject, JobStderr: o.JobStderr, State: o.State}
	said, counts := reflect.ValueOf(*o), reflect.ValueOf(*own)
	for field, value := range said.Fields() {
		if !value.IsZero() && counts.FieldByIndex(field.Index).IsZero() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			rest = append(rest, key)
		}
	}
	return own, rest
}
