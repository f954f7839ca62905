package sister

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
)

// cluster is several hosts in this process; the first, n1, reaches the others as over TLS.
type cluster struct {
	t       *testing.T
	names   []string
	members map[string]*member

	mu    sync.Mutex
	fault func(host string, e hostapi.Event) fault // nil: none
	sent  []string                                 // "EVENT JOB HOST,HOST"
}

type member struct {
	*node
	host *host.Host
	jobs *Jobs
}

const (
	thisRun  = "0123456789abcdef0123456789abcdef"
	otherRun = "fedcba9876543210fedcba9876543210"
)

// fault is what becomes of an event on its way.
type fault int

const (
	none fault = iota
	down       // it never arrives, and that is certain
	hung       // it never arrives, and nobody knows
	lost       // it is carried out, and the answer is lost
)

// newCluster opens n hosts, each with the hook sister; setUp may add to a node before it is opened.
func newCluster(t *testing.T, n int, config func(name string) string, setUp func(name string, n *node)) *cluster {
	t.Helper()
	c := &cluster{t: t, members: map[string]*member{}}
	for i := 1; i <= n; i++ {
		c.names = append(c.names, fmt.Sprintf("n%d", i))
	}
	for _, name := range slices.Backward(c.names) { // n1 may want the others as soon as it is there
		m := &member{node: newNode(t)}
		text := fmt.Sprintf("log = %q\n", filepath.Join(m.dir, "log"))
		if config != nil {
			text += config(name)
		}
		m.hook("sister", "sister", text, 1)
		m.jobs = m.node.jobs(name, nil)
		if name == "n1" {
			m.jobs.Others = c
		}
		m.options = func(o *host.Options) { o.Node, o.Sisters = name, m.jobs.Of }
		if setUp != nil {
			setUp(name, m.node)
		}
		m.host = m.open()
		c.members[name] = m
	}
	return c
}

func (c *cluster) head() *host.Host { return c.members["n1"].host }

// breaks sets what becomes of events from now on.
func (c *cluster) breaks(f func(host string, e hostapi.Event) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *cluster) faultOf(host string, e hostapi.Event) fault {
	c.mu.Lock()
	f := c.fault
	c.mu.Unlock()
	if f == nil {
		return none
	}
	return f(host, e) // which may wait
}

func (c *cluster) Send(ctx context.Context, req *hostapi.Request, hosts []string) map[string]Answer {
	name := strings.TrimPrefix(string(req.Event), "execjob_")
	c.mu.Lock()
	c.sent = append(c.sent, fmt.Sprintf("%s %s %s", name, req.Job.ID, strings.Join(hosts, ",")))
	c.mu.Unlock()
	answers := map[string]Answer{}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for _, host := range hosts {
		calls.Go(func() {
			a := c.sendOne(ctx, req, host)
			mu.Lock()
			defer mu.Unlock()
			answers[host] = a
		})
	}
	calls.Wait()
	return answers
}

// sendOne passes an event on as JSON, and as the API does what another host may say.
func (c *cluster) sendOne(ctx context.Context, req *hostapi.Request, host string) Answer {
	f := c.faultOf(host, req.Event)
	switch f {
	case down:
		return Answer{Err: fmt.Errorf("%s: connection refused", host)}
	case hung:
		return Answer{Err: inDoubt{fmt.Errorf("%s: no answer in time", host)}}
	}
	if req.Spread || req.MoM != nil || req.Env != nil || req.PID != 0 || req.Head != "" || !hostapi.IsRun(req.Run) ||
		req.Job.MotherSuperior || req.Job.ResourcesUsed != nil || req.Job.SessionID != 0 {
		c.t.Errorf("%s of %s gets %+v, job %+v", req.Event, host, req, req.Job)
	}
	var got hostapi.Request
	overJSON(c.t, req, &got)
	own := &hostapi.Request{Event: got.Event, Job: got.Job, Signal: got.Signal, Run: got.Run, Head: "n1"}
	out, err := c.members[host].host.Handle(ctx, own)
	if f == lost {
		return Answer{Err: inDoubt{fmt.Errorf("%s: connection reset", host)}}
	}
	if err != nil {
		return Answer{Err: hostapi.Errorf(hostapi.KindOf(err), "%s: %w", host, err)}
	}
	a := Answer{Outcome: new(hostapi.Outcome)}
	overJSON(c.t, out, a.Outcome)
	return a
}

func overJSON(t *testing.T, from, to any) {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		t.Error(err)
	}
}

func (c *cluster) Usage(ctx context.Context, id string, hosts []string) map[string]Usage {
	answers := map[string]Usage{}
	for _, name := range hosts {
		if c.faultOf(name, hostapi.EventPeriodic) != none {
			answers[name] = Usage{Err: fmt.Errorf("%s: connection refused", name)}
			continue
		}
		m := c.members[name]
		err := m.host.Refresh(ctx, id)
		rec := m.store.Get(id)
		if err != nil || rec == nil {
			answers[name] = Usage{Err: fmt.Errorf("%s: %w", name, errors.Join(err, host.ErrOver))}
			continue
		}
		answers[name] = Usage{Usage: rec.Hosts[name]}
	}
	return answers
}

// ask has every host but the head ask about its jobs, and end those that the head does not have.
func (c *cluster) ask() {
	c.t.Helper()
	for _, name := range c.names[1:] {
		m := c.members[name]
		for _, rec := range m.store.List() {
			if there := c.members["n1"].record(rec.Job.ID); there != nil && there.Run == rec.Run {
				continue
			}
			if err := m.host.Abandon(c.t.Context(), rec.Job.ID, rec.Run, missedEnd); err != nil {
				c.t.Errorf("%s ends job %s: %v", name, rec.Job.ID, err)
			}
		}
	}
}

const missedEnd = "the job ended while this host could not be reached"

// event makes an event of a job that has all hosts of the cluster.
func (c *cluster) event(e hostapi.Event, id string) *hostapi.Request {
	r := event(e, id)
	var chunks []string
	for _, name := range c.names {
		chunks = append(chunks, "("+name+":ncpus=1)")
	}
	r.Job.ExecVnode = strings.Join(chunks, "+")
	r.Job.ResourceList = hostapi.Resources{"ncpus": "2", "walltime": "01:00:00"}
	r.Spread = e == hostapi.EventBegin
	return r
}

// judge has the head carry out an event.
func (c *cluster) judge(e hostapi.Event, id string) *host.Verdict {
	c.t.Helper()
	v, err := c.head().Judge(c.t.Context(), c.event(e, id))
	if err != nil {
		c.t.Fatalf("%s of job %s: %v", e, id, err)
	}
	return v
}

func (c *cluster) must(events ...hostapi.Event) {
	c.t.Helper()
	for _, e := range events {
		if v := c.judge(e, "1.srv"); v.Reject {
			c.t.Fatalf("%s rejected: %s", e, v.Message)
		}
	}
}

// holds returns the hosts that have a record of the job.
func (c *cluster) holds(id string) string {
	c.t.Helper()
	var hosts []string
	for _, name := range c.names {
		if c.members[name].record(id) != nil {
			hosts = append(hosts, name)
		}
	}
	return strings.Join(hosts, " ")
}

// events returns what the hook of a host got of the job, in order: without execjob_, with the
// signal or size where there is one.
func (c *cluster) events(host, id string) string {
	var list []string
	for _, call := range c.members[host].calls("log") {
		f := strings.Fields(call)
		e, ok := strings.CutPrefix(f[0], "execjob_")
		if !ok || f[1] != id {
			continue
		}
		if f[2] != "-" {
			e += "=" + f[2]
		}
		list = append(list, e)
	}
	return strings.Join(list, " ")
}
