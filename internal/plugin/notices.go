package plugin

import (
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/hookhost/hookhost/hostapi"
)

// Bounds on what a hook that floods the host can do. A burst is what many jobs that run out of
// memory at once make.
const (
	noticeBurst = 256
	noticeEvery = 50 * time.Millisecond // beyond the burst
)

// Bounds on the lines of the log about notices that are dropped. The rest becomes a number.
const (
	dropBurst = 20
	dropEvery = time.Minute
)

// listen passes on what the instance has to say between events, one notice after the other, until
// the program ends. A notice that comes faster than the bounds waits in the hook.
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
		if hostapi.KindOf(err) == hostapi.KindBusy { // as of a job that is ending
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
