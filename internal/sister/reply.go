package sister

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/hostapi"
)

// toSisters returns an event of a job as its other hosts get it. This host's processes and what was
// measured here are left out.
func toSisters(req *hostapi.Request, run string) *hostapi.Request {
	job := *req.Job
	job.MotherSuperior, job.SessionID, job.ResourcesUsed = false, 0, nil
	job.State, job.Elapsed, job.OtherCPUTSeconds = nil, 0, nil
	return &hostapi.Request{Event: req.Event, Job: &job, Signal: req.Signal, Run: run}
}

// reply is what one of a job's other hosts answered to an event.
type reply struct {
	host string
	Answer
}

// accepted is true where the host has carried the event out and had nothing against it.
func (r reply) accepted() bool { return r.Err == nil && !r.Outcome.Reject }

// mayHold is true where something of the event may be left on the host.
func (r reply) mayHold() bool { return r.accepted() || errors.Is(r.Err, ErrDoubt) }

// says returns why it is no acceptance, with the host's name.
func (r reply) says() string {
	text := ""
	switch {
	case r.Err != nil:
		text = r.Err.Error()
	case r.Outcome.Message != "":
		text = r.Outcome.Message
	default:
		text = "rejected"
	}
	return r.host + ": " + plain(strings.TrimPrefix(text, r.host+": "))
}

// cause is says without the host's name.
func (r reply) cause() string { return strings.TrimPrefix(r.says(), r.host+": ") }

// ask has hosts carry out an event of a run of a job and returns what each of them answered, in
// their order. A host without an answer may have done anything.
func (j *Jobs) ask(ctx context.Context, req *hostapi.Request, run string, hosts []string) []reply {
	if len(hosts) == 0 {
		return nil
	}
	var answers map[string]Answer
	if j.Others != nil {
		answers = j.Others.Send(ctx, toSisters(req, run), hosts)
	}
	replies := make([]reply, len(hosts))
	for i, host := range hosts {
		a, there := answers[host]
		switch {
		case j.Others == nil:
			a = Answer{Err: inDoubt{errNoSisters}}
		case !there, a.Err == nil && a.Outcome == nil:
			a = Answer{Err: inDoubt{errNoAnswer}}
		case a.Err == nil:
			a.Outcome = checked(a.Outcome)
		}
		replies[i] = reply{host, a}
	}
	return replies
}

// inDoubt is an error that is ErrDoubt; its text is the cause's.
type inDoubt struct{ error }

func (d inDoubt) Unwrap() []error { return []error{d.error, ErrDoubt} }

var (
	errNoSisters = hostapi.Errorf(hostapi.KindNode, "[sister] is not configured on this host")
	errLater     = hostapi.Errorf(hostapi.KindNode, "pbs_mom tells when the job ends")
	errNoLonger  = hostapi.Errorf(hostapi.KindNode, "the job does not live there")
	errNoAnswer  = hostapi.Errorf(hostapi.KindNode, "no answer")
)

const maxName = 200 // bytes of a text from outside in a message

// plain is a text of another host as this one's files and terminals may have it: one line that is
// not too long.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(hostapi.OneLine(text), "?"))
	return hostapi.Clip(text, hostapi.MaxLine)
}

func put[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = make(M)
	}
	(*m)[key] = value
}
