package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Sisters reaches a job's other hosts. Its methods may be called at the same time, and each returns in a bounded time.
type Sisters interface {
	// Send has hosts carry out an event, at the same time. It returns one answer for each of them, never fewer.
	Send(ctx context.Context, req *hostapi.Request, hosts []string) map[string]SisterAnswer
	// Usage asks hosts, at the same time, what a live job has used there by now. It returns one answer for each of them.
	Usage(ctx context.Context, id string, hosts []string) map[string]SisterUsage
}

// SisterAnswer is what a host made of an event: an outcome or an error, never both.
type SisterAnswer struct {
	Outcome *hostapi.Outcome
	Err     error // names the host
	Doubt   bool  // beside Err: it may have been carried out all the same
}

// SisterUsage is what a host told of a live job.
type SisterUsage struct {
	Usage *hostapi.HostUsage // nil where it has measured nothing yet
	Ended bool               // it is through with a job of that id, this run of it or an earlier one
	Err   error              // names the host
}

// spreads tells whether events of the job go to other hosts: this one has begun it there as that run.
func spreads(rec *jobstate.Record) bool { return rec != nil && rec.Run != "" && rec.Head == "" }

// others returns the hosts that events of the job go to. A record that was made anew does not name them; then the job does.
func (h *Host) others(rec *jobstate.Record) []string {
	if !spreads(rec) {
		return nil
	}
	if len(rec.Sisters) > 0 {
		return rec.Sisters
	}
	hosts, err := h.sistersOf(rec.Job)
	if err != nil {
		return nil
	}
	return hosts
}

// sistersOf returns the other hosts of a job that this host is to spread, in exec_vnode's order. This host has to be its first.
func (h *Host) sistersOf(job *hostapi.Job) ([]string, error) {
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 || !pbs.SameHost(hosts[0], h.opt.Node) {
		return nil, fmt.Errorf("%s is not the first host of exec_vnode %q: only that one spreads a job", h.opt.Node, clip(job.ExecVnode, maxName))
	}
	// Two names of one host have the part before the first dot in common.
	known := map[string][]string{}
	var others []string
	for _, host := range hosts {
		short, _, _ := strings.Cut(host, ".")
		if pbs.SameHost(host, h.opt.Node) || slices.ContainsFunc(known[short], func(other string) bool { return pbs.SameHost(other, host) }) {
			continue
		}
		known[short], others = append(known[short], host), append(others, host)
	}
	return others, nil
}

const maxName = 200 // bytes of a text from outside in a message

// newRun names a start of a job.
func newRun() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// toSisters returns an event of a job as its other hosts get it: without what is about this host's processes, and without what was
// measured here.
func toSisters(req *hostapi.Request, run string) *hostapi.Request {
	job := *req.Job
	job.MotherSuperior, job.SessionID, job.ResourcesUsed = false, 0, nil
	job.State, job.Elapsed, job.OtherCPUTSeconds = nil, 0, nil
	return &hostapi.Request{Event: req.Event, Job: &job, Signal: req.Signal, Run: run}
}

// reply is what one of a job's other hosts answered to an event.
type reply struct {
	host string
	SisterAnswer
}

// accepted tells whether the host has carried the event out and had nothing against it.
func (r reply) accepted() bool { return r.Err == nil && !r.Outcome.Reject }

// mayHold tells whether something of the event may be left on the host.
func (r reply) mayHold() bool { return r.accepted() || r.Doubt }

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

// send has hosts carry out an event of the job and returns what each of them answered, in their order. A host without an answer may
// have done anything.
func (h *Host) send(ctx context.Context, req *hostapi.Request, rec *jobstate.Record, hosts []string) []reply {
	if len(hosts) == 0 {
		return nil
	}
	var answers map[string]SisterAnswer
	if h.opt.Sisters != nil {
		answers = h.opt.Sisters.Send(ctx, toSisters(req, rec.Run), hosts)
	}
	replies := make([]reply, len(hosts))
	for i, host := range hosts {
		a, there := answers[host]
		switch {
		case h.opt.Sisters == nil:
			a = SisterAnswer{Err: errNoSisters, Doubt: true}
		case !there, a.Err == nil && a.Outcome == nil:
			a = SisterAnswer{Err: errNoAnswer, Doubt: true}
		case a.Err == nil:
			a.Outcome = checked(a.Outcome)
		}
		replies[i] = reply{host, a}
	}
	return replies
}

var (
	errNoSisters = hostapi.Errorf(hostapi.KindNode, "[sister] is not configured on this host")
	errLater     = hostapi.Errorf(hostapi.KindNode, "pbs_mom tells when the job ends")
	errNoLonger  = hostapi.Errorf(hostapi.KindNode, "the job does not live there")
	errNoAnswer  = hostapi.Errorf(hostapi.KindNode, "no answer")
)

// plain is a text of another host as this one's files and terminals may have it: one line that is not too long.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line(text), "?"))
	return clip(text, hostapi.MaxLine)
}
