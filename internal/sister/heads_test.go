package sister

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// live are jobs of other hosts on this one, by id.
type live struct {
	mu    sync.Mutex
	jobs  map[string]*jobstate.Record
	ended []string // "JOB: why"
}

func (l *live) List() []*jobstate.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.jobs))
}

// add has a job of a head's live here; "" is a job of this host's own.
func (l *live) add(id, head string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &jobstate.Record{Job: &hostapi.Job{ID: id}, Phase: jobstate.PhaseRunning, Head: head}
	if head != "" {
		r.Run = thisRun
	}
	if l.jobs == nil {
		l.jobs = map[string]*jobstate.Record{}
	}
	l.jobs[id] = r
}

func (l *live) abandon(_ context.Context, id, run, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run != thisRun {
		return fmt.Errorf("run %s", run)
	}
	l.ended = append(l.ended, id+": "+why)
	delete(l.jobs, id)
	return nil
}

func (l *live) ends() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.ended))
}

// logged returns a log and what it has.
func logged() (*logrus.Entry, *strings.Builder) {
	text := new(strings.Builder)
	l := logrus.New()
	l.SetOutput(text)
	return logrus.NewEntry(l), text
}

// nobody returns an address where nobody answers.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	l.Close()
	return l.Addr().String()
}

// jobOn is what a head knows of a job.
func jobOn(head, id, run string) api.Job {
	return api.Job{Job: &hostapi.Job{ID: id, ExecVnode: "(" + head + ":ncpus=1)+(n1:ncpus=1)"}, Run: run}
}

func TestJobThatItsHeadDoesNotHaveIsEnded(t *testing.T) {
	theirs, ours := identities(t, []string{"n2", "n3"})
	f := fleet(t, ours, config.Sister{Width: 4, Hosts: map[string]string{
		"n2": serveHost(t, "n2", theirs, farHost{job: func(id string) (api.Job, error) {
			switch id {
			case "7.n2":
				return jobOn("n2", id, thisRun), nil
			case "8.n2":
				return jobOn("n2", id, otherRun), nil
			}
			return api.Job{}, api.ErrNotFound
		}}),
		"n3": serveHost(t, "n3", theirs, farHost{job: func(string) (api.Job, error) {
			return api.Job{}, errors.New("the database is damaged")
		}}),
		"n9": nobody(t),
	}})
	var jobs live
	log, text := logged()
	h := NewHeads(&jobs, f, jobs.abandon, time.Hour, 72*time.Hour, log)
	jobs.add("1.n1", "")
	if h.ask(t.Context()) {
		t.Error("it goes on asking about jobs of its own")
	}
	for id, head := range map[string]string{
		"7.n2": "n2", "8.n2": "n2", "9.n2": "n2", "1.n3": "n3", "1.n9": "n9", "2.n9": "n9",
	} {
		jobs.add(id, head)
	}
	for range 3 { // the log has each once, and only a head that knows is believed
		if !h.ask(t.Context()) {
			t.Error("it asks no more")
		}
	}
	if got, want := jobs.ends(), []string{"8.n2: " + endMissed, "9.n2: " + endMissed}; !slices.Equal(got, want) {
		t.Errorf("ended %q, want %q", got, want)
	}
	lines := text.String()
	if strings.Count(lines, "\n") != 2 {
		t.Errorf("log:\n%s", lines)
	}
	for _, part := range []string{"host=n9", "host=n3", "jobs that it has begun here cannot be asked about: 2: "} {
		if !strings.Contains(lines, part) {
			t.Errorf("log lacks %q:\n%s", part, lines)
		}
	}
}

// A head that does not answer for the time of head_timeout is given up. A head that answers is
// there, be it with an error or with a certificate that is not believed. So is one that has
// answered in between.
func TestOnlyAHeadThatIsSilentForTooLongIsGivenUp(t *testing.T) {
	theirs, ours := identities(t, []string{"n3", "n4"})
	strangers, _ := identities(t, []string{"n5"})
	damaged := farHost{job: func(string) (api.Job, error) { return api.Job{}, errors.New("damaged") }}
	sound := farHost{job: func(id string) (api.Job, error) { return jobOn("n4", id, thisRun), nil }}
	at := map[string]string{
		"n2": nobody(t),
		"n3": serveHost(t, "n3", theirs, damaged),
		"n4": nobody(t),
		"n5": serveHost(t, "n5", strangers, farHost{}),
	}
	back := serveHost(t, "n4", theirs, sound)
	var jobs live
	log, _ := logged()
	log.Logger.SetOutput(io.Discard)
	heads := map[string]string{"1.n1": "", "1.n2": "n2", "2.n2": "n2", "1.n3": "n3", "1.n4": "n4", "1.n5": "n5"}
	for id, head := range heads {
		jobs.add(id, head)
	}
	now := time.Now()
	h := NewHeads(&jobs, nil, jobs.abandon, time.Hour, 72*time.Hour, log)
	h.now = func() time.Time { return now }
	for _, step := range []struct {
		after time.Duration
		n4    string
		want  int
	}{
		{0, at["n4"], 0},
		{40 * time.Hour, back, 0},
		{71 * time.Hour, at["n4"], 0},
		{72 * time.Hour, at["n4"], 2},
		{130 * time.Hour, at["n4"], 2},
		{143 * time.Hour, at["n4"], 3},
	} {
		hosts := maps.Clone(at)
		hosts["n4"] = step.n4
		h.fleet = fleet(t, ours, config.Sister{Hosts: hosts, Width: 4})
		began := now
		now = now.Add(step.after)
		h.ask(t.Context())
		if got := jobs.ends(); len(got) != step.want {
			t.Errorf("after %v: ended %q, want %d", step.after, got, step.want)
		}
		now = began
	}
	why := "n2, which has begun the job, has not answered for 72h0m0s"
	want := []string{"1.n2: " + why, "1.n4: " + strings.Replace(why, "n2", "n4", 1)}
	if got := jobs.ends(); !slices.Equal(got[:2], want) {
		t.Errorf("ended %q", got)
	}
	never := NewHeads(&jobs, h.fleet, jobs.abandon, time.Hour, 0, log)
	never.now = func() time.Time { return now }
	jobs.add("3.n2", "n2")
	for range 2 {
		never.ask(t.Context())
		now = now.Add(365 * 24 * time.Hour)
	}
	if got := jobs.ends(); len(got) != 3 {
		t.Errorf("without a bound: ended %q", got)
	}
}

// The silence about an earlier job does not count against the next one of that head.
func TestHeadThatHasBegunAnotherJobIsNotGivenUpAtOnce(t *testing.T) {
	_, ours := identities(t, []string{"n2"})
	f := fleet(t, ours, config.Sister{Hosts: map[string]string{"n2": nobody(t)}, Width: 4})
	var jobs live
	log, _ := logged()
	now := time.Now()
	h := NewHeads(&jobs, f, jobs.abandon, time.Hour, 72*time.Hour, log)
	h.now = func() time.Time { return now }
	jobs.add("1.n2", "n2")
	h.ask(t.Context())
	delete(jobs.jobs, "1.n2") // the head has ended it
	h.ask(t.Context())
	now = now.Add(73 * time.Hour)
	jobs.add("2.n2", "n2")
	h.ask(t.Context())
	if got := jobs.ends(); len(got) > 0 {
		t.Errorf("ended %q", got)
	}
	now = now.Add(72 * time.Hour)
	h.ask(t.Context())
	if got := jobs.ends(); len(got) != 1 {
		t.Errorf("ended %q, want the job whose head is silent for 72h", got)
	}
}

// Jobs are asked about at the start, some time after each begin, and at once when that is wanted;
// else nothing runs.
func TestHeadsSleepWithoutJobs(t *testing.T) {
	theirs, ours := identities(t, []string{"n2"})
	asked := make(chan string, 100)
	f := fleet(t, ours, config.Sister{Width: 4, Hosts: map[string]string{
		"n2": serveHost(t, "n2", theirs, farHost{job: func(id string) (api.Job, error) {
			asked <- id
			return api.Job{}, api.ErrNotFound
		}}),
	}})
	var jobs live
	log, _ := logged()
	h := NewHeads(&jobs, f, jobs.abandon, time.Millisecond, 0, log)
	jobs.add("1.n2", "n2")
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { h.Run(ctx) })
	if got := <-asked; got != "1.n2" {
		t.Errorf("asked about %s at the start", got)
	}
	for id, wake := range map[string]func(){"2.n2": h.Begun, "3.n2": h.Again} {
		jobs.add(id, "n2")
		wake()
		if got := <-asked; got != id {
			t.Errorf("asked about %s, want %s", got, id)
		}
	}
	cancel()
	done.Wait()
	if len(asked) > 0 {
		t.Errorf("asked about %s once more", <-asked)
	}
}
