package main

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/sister"
)

// payer tells hosts what they have still to be told: that a job of theirs is over. It tries all at its start, and then every while as
// long as there are any; where there are none it sleeps. What it sends may be sent again and again, so one that dies over it does no harm.
type payer struct {
	debts *sister.Debts
	fleet *sister.Fleet
	retry time.Duration
	log   *logrus.Entry
	said  hourly

	alarm *alarm
}

func newPayer(debts *sister.Debts, fleet *sister.Fleet, retry time.Duration, log *logrus.Entry) *payer {
	p := &payer{debts: debts, fleet: fleet, retry: retry, log: log}
	p.alarm = newAlarm(retry, p.pay)
	return p
}

// run pays until ctx ends.
func (p *payer) run(ctx context.Context) { p.alarm.run(ctx) }

// owed has a debt that is new tried after the usual while: its host has just not answered.
func (p *payer) owed() { p.alarm.set() }

// pay tries all debts, of many hosts at once and of each host in turn. It tells whether some are left.
func (p *payer) pay(ctx context.Context) (left bool) {
	list, err := p.debts.List()
	if err != nil && p.said.may("", time.Now()) {
		p.log.Errorf("read what other hosts have to be told: %v", err)
	}
	byHost := map[string][]sister.Debt{}
	var hosts []string
	for _, d := range list {
		if byHost[d.Host] == nil {
			hosts = append(hosts, d.Host)
		}
		byHost[d.Host] = append(byHost[d.Host], d)
	}
	errs := p.fleet.Each(ctx, hosts, func(ctx context.Context, host string, c *api.Client) error {
		var errs []error
		for _, d := range byHost[host] {
			err := p.deliver(ctx, c, d)
			errs = append(errs, err)
			if _, answered := errors.AsType[*api.Error](err); err != nil && !answered {
				break // nor will it answer the next
			}
		}
		return errors.Join(errs...)
	})
	for host, err := range errs {
		if ctx.Err() == nil && p.said.may(host, time.Now()) {
			p.log.WithField("host", host).Warnf("it has still to be told that %s: %v", jobsOver(byHost[host]), err)
		}
	}
	return len(errs) > 0 || err != nil
}

func jobsOver(debts []sister.Debt) string {
	if len(debts) == 1 {
		return "job " + debts[0].Job + " is over"
	}
	return countOf(len(debts), "job") + " are over, " + debts[0].Job + " first"
}

// deliver pays one debt.
func (p *payer) deliver(ctx context.Context, c *api.Client, d sister.Debt) error {
	events := []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd}
	if d.Event == hostapi.EventAbort {
		events = []hostapi.Event{hostapi.EventAbort}
	}
	entry := p.log.WithFields(logrus.Fields{"host": d.Host, "job": d.Job})
	for _, e := range events {
		out, err := c.Handle(ctx, endOf(d, e))
		if err != nil {
			return err
		}
		if out.Reject { // it knows that the job is over, and tries again by itself
			entry.WithField("event", e).Warnf("the end of the job failed there: %s", out.Message)
		}
	}
	if err := p.debts.Paid(d); err != nil {
		return err
	}
	p.said.forget(d.Host)
	entry.WithField("event", d.Event).Infof("it has been told that the job is over, %s late", time.Since(d.Since).Round(time.Second))
	return nil
}

// endOf is an event that ends a debt's run of its job. What else there is to know of the job its record over there says.
func endOf(d sister.Debt, e hostapi.Event) *hostapi.Request {
	return &hostapi.Request{Event: e, Run: d.Run, Job: &hostapi.Job{ID: d.Job, Owner: hostapi.Owner{UID: -1, GID: -1}}}
}
