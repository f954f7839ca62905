package web

import (
	"context"
	"encoding/json"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/report"
)

// Socket is the daemon at a socket. Each request uses a new connection, so that it reaches a
// restarted daemon too.
type Socket string

// Node returns the name of this host.
func (s Socket) Node(ctx context.Context) (name string, err error) {
	err = s.ask(func(c *api.Client) error {
		info, err := c.Node(ctx)
		name = info.Node
		return err
	})
	return name, err
}

// Jobs returns the live jobs of this host with their current usage here. A job whose cgroup is gone
// has no usage.
func (s Socket) Jobs(ctx context.Context) (jobs []api.Job, err error) {
	var now api.PresentJobs
	err = s.ask(func(c *api.Client) error {
		if jobs, err = c.Jobs(ctx); err == nil {
			now, err = c.Present(ctx)
		}
		return err
	})
	uses := map[string]api.PresentJob{}
	for _, p := range now.Jobs {
		uses[p.ID] = p
	}
	for i := range jobs {
		jobs[i].ResourcesUsed, jobs[i].Hosts = nil, nil
		if p, ok := uses[jobs[i].Job.ID]; ok {
			jobs[i].Hosts = map[string]*hostapi.HostUsage{now.Node: {
				NCPUs: p.NCPUs, CPUTSeconds: p.UsesHere.CPUSeconds, MemBytes: p.UsesHere.MemBytes,
				MemLimitBytes: p.UsesHere.MemLimitBytes, OOMKills: p.UsesHere.OOMKills,
			}}
		}
	}
	return jobs, err
}

// Report returns the report of a job.
func (s Socket) Report(ctx context.Context, id string) (text json.RawMessage, err error) {
	err = s.ask(func(c *api.Client) error {
		text, err = c.Report(ctx, id)
		return err
	})
	return text, err
}

// Finished calls yield with the reports of finished jobs that f chooses.
func (s Socket) Finished(ctx context.Context, f report.Filter, yield func(json.RawMessage) bool) error {
	return s.ask(func(c *api.Client) error { return c.Reports(ctx, f, yield) })
}

func (s Socket) ask(question func(*api.Client) error) error {
	client, err := api.Dial(string(s))
	if err != nil {
		return err
	}
	defer client.Close()
	return question(client)
}
