package main

import (
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// lives is a node whose jobs begin and end, with the state that is expected.
type lives struct {
	*node
	k    *kernfstest.Kernel
	live map[string]*life
}

// life is a job that has begun but not ended.
type life struct {
	ncpus, ngpus    int
	mem             int64
	pids            []int // of live processes
	stuck           []int // those that the kernel does not release
	suspended, over bool
	resumed         bool // since then its cpus may also be another job's
	attached        int  // at most
	used            [6]float64
	killed          bool // for exceeding memory
}

const (
	lifeCPUs = 4
	lifeGPUs = 3
	lifeMem  = 16 * gib
)

// checkTB makes a rapid.T a testing.TB. The methods of rapid.T take precedence over those of the
// surrounding test.
type (
	checkTB struct {
		*rapid.T
		around
	}
	around    struct{ outermost }
	outermost struct{ testing.TB }
)

// TestJobsStayApartWhateverHappens combines events, processes, failing kernel calls and crashes of
// the hook in any order. After each it compares the kernel with a model. A failure is reduced to
// the shortest sequence. -rapid.seed repeats it, while -rapid.checks and -rapid.steps run more.
func TestJobsStayApartWhateverHappens(t *testing.T) {
	onEachFake(t, func(t *testing.T, boot func(...kernfstest.Option) *kernfstest.Kernel) {
		t.Parallel()
		rapid.Check(t, func(r *rapid.T) {
			tb := checkTB{r, around{outermost{t}}}
			n, k := fakeNode(tb, boot, func(c *config.File) { c.Memory.ReservePercent = 0 })
			n.devices = gpus(lifeGPUs)
			l := &lives{node: n, k: k, live: map[string]*life{}}
			r.Cleanup(l.finishAll)
			r.Repeat(map[string]func(*rapid.T){
				"":            func(*rapid.T) { l.check() },
				"begin":       l.beginJob,
				"begin again": l.beginJob,
				"launch":      l.launchJob,
				"attach":      l.attach,
				"fork":        l.fork,
				"exit":        l.exit,
				"stick":       l.stick,
				"unstick":     l.unstick,
				"use":         l.use,
				"exceed":      l.exceed,
				"suspend":     l.suspend,
				"resume":      l.resume,
				"resize":      l.resize,
				"epilogue":    l.epilogue,
				"end":         l.end,
				"periodic":    l.periodic,
				"stale list":  l.staleList,
				"restart":     l.restartHook,
				"lost record": l.loseRecord,
			})
		})
	})
}

// pick returns a job that meets the condition, or skips the action.
func (l *lives) pick(r *rapid.T, is func(*life) bool) (id string, j *life) {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(l.live)) {
		if is(l.live[id]) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		r.SkipNow()
	}
	id = rapid.SampledFrom(ids).Draw(r, "job")
	return id, l.live[id]
}

func isRunning(j *life) bool { return !j.over && !j.suspended }

func (l *lives) pickProcess(r *rapid.T) (j *life, pid int) {
	_, j = l.pick(r, func(j *life) bool { return isRunning(j) && len(j.pids) > 0 })
	return j, rapid.SampledFrom(j.pids).Draw(r, "pid")
}

// The trouble that can happen in an event: a kernel call fails, or the hook dies at one.
const (
	fails = "fails"
	dies  = "dies"
)

// trouble sends an event, with or without trouble. If the hook died, another one is started.
func (l *lives) trouble(r *rapid.T, send func() error) (what string, err error) {
	switch what = rapid.SampledFrom([]string{"", "", "", fails, dies}).Draw(r, "trouble"); what {
	case fails:
		ops := []string{"write", "mkdir", "rmdir", "setxattr", "open", "read", "getxattr"}
		op := rapid.SampledFrom(ops).Draw(r, "call")
		defer l.k.FailNth(op, "", unix.EIO, rapid.IntRange(0, 10).Draw(r, "calls before"))()
	case dies:
		heal := l.k.FailFrom(unix.EIO, rapid.IntRange(0, 30).Draw(r, "calls before"))
		err = send()
		heal()
		l.restartHook(r)
		return what, err
	}
	return what, send()
}

// again is like trouble, for an event that must succeed in the end.
func (l *lives) again(r *rapid.T, e hostapi.Event, id string, edit ...func(*hostapi.Request)) (out *hostapi.Outcome) {
	what, err := l.trouble(r, l.sends(e, id, &out, edit...))
	if what == dies || what == fails && err != nil {
		return l.do(e, id, edit...)
	}
	must.NoError(l.t, err)
	return out
}

// sends wraps event for trouble.
func (l *lives) sends(e hostapi.Event, id string, out **hostapi.Outcome, edit ...func(*hostapi.Request)) func() error {
	return func() (err error) {
		*out, err = l.event(e, id, edit...)
		return err
	}
}
