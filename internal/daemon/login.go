package daemon

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/pam"
)

// Login decides about a login by the configuration in force. With a PID it adds that process to the
// job of the session.
func (d *daemon) Login(ctx context.Context, login api.Login) (api.Session, error) {
	jobs, err := d.jobs.Jobs(ctx)
	if err != nil {
		return api.Session{}, err
	}
	client := func() []string { return clientNames(ctx, login.From) }
	id, err := pam.Decide(d.conf.file.Load().PAM, login, jobs, client, d.conf.node)
	if err == nil && login.NoGroups != "" { // a refusal, which is logged too, has this text
		d.log.WithField("user", login.User).Warnf("login: no @group in allow counts: %s", login.NoGroups)
	}
	if err != nil || id == "" {
		return api.Session{}, err
	}
	rec := d.jobs.store.Get(id)
	if rec == nil {
		return api.Session{}, api.RefusedLogin("No login: job %s of %s has just ended.", id, login.User)
	}
	if login.PID != 0 {
		err = d.join(ctx, login, rec.Job)
	}
	return api.Session{Job: id, Env: host.LoginEnv(rec)}, err
}

// join adds the process that starts a session to the job. The hook checks that the process is
// root's or the owner's.
func (d *daemon) join(ctx context.Context, login api.Login, job *hostapi.Job) error {
	out, err := d.Handle(ctx, &hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: login.PID, Login: true,
		StartTime: login.StartTime})
	switch {
	case hostapi.KindOf(err) == hostapi.KindJob: // it has ended since the decision, or is ending
		return api.RefusedLogin("No login: job %s of %s has just ended.", job.ID, login.User)
	case err == nil && out.Reject:
		return api.RefusedLogin("No login: %s cannot join job %s: %s", login.User, job.ID, out.Message)
	}
	return err
}

// lookupTime bounds how long a login waits for the name of its client.
const lookupTime = time.Second

// clientNames returns the names of the host that a login comes from. from is its name or address.
func clientNames(ctx context.Context, from string) []string {
	if net.ParseIP(from) == nil {
		return []string{from}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	names, _ := net.DefaultResolver.LookupAddr(ctx, from) // without a name, another rule chooses the job
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".")
	}
	return append(names, from)
}
