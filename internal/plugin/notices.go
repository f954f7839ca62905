package plugin

import (
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/hookhost/hookhost/hostapi"
)

// Bounds on a hook that floods the host. A burst is enough for many jobs that run out of memory at
// once.
const (
	noticeBurst = 256
	noticeEvery = 50 * time.Millisecond // beyond the burst
)

// Bounds on log lines about dropped notices. The rest is only counted.
const (
	dropBurst = 20
	dropEvery = time.Minute
)

// listen passes on the instance's notices between events, one after the other, until the program
// ends. A notice that exceeds the bounds waits in the hook.
func (p *Plugin) listen(inst *instance) {
	pace := rate.NewLimiter(rate.Every(noticeEvery), noticeBurst)
	lines := rate.NewLimiter(rate.Every(dropEvery), dropBurst)
	unlogged := 0
	err := inst.client.Notices(p.ctx, func(job string, update *hostapi.JobUpdate, err error) {
		if pace.Wait(p.ctx) != nil {
			return
		}
		if err == nil {
			err = p.host.Notice(inst.hook.Name, job, update)
		}
		if err == nil {
			return
		}
		if !lines.Allow() {
			unlogged++
			return
		}
		entry := p.log.WithField("job", job)
		if unlogged > 0 {
			entry = entry.WithField("not_logged", unlogged)
			unlogged = 0
		}
		level := logrus.ErrorLevel
		if hostapi.KindOf(err) == hostapi.KindBusy { // for example of a job that is ending
			level = logrus.InfoLevel
		}
		entry.Logf(level, "notice dropped: %v", err)
	})
	if unlogged > 0 {
		p.log.Errorf("further notices that were dropped: %d", unlogged)
	}
	if err != nil && p.ctx.Err() == nil {
		p.log.Errorf("hook %s is not heard between events any more: %v", inst.hook.Name, err)
	}
}
