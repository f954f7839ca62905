package conformance

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
)

// session is the hook in service, as in the daemon: its program is restarted when it ends.
type session struct {
	test    *test
	catalog *plugin.Catalog

	raw atomic.Pointer[[]byte] // of the last outcome

	mu       sync.Mutex
	fresh    *plugin.Candidate // the program that started last
	startups []answer          // to exechost_startup, one for each start of the program
}

// open starts the program, with to as the log of the host. The error says why it does not run.
func (t *test) open(
	ctx context.Context, r *plugin.Registry, to *logrus.Entry, dial ...grpc.DialOption,
) (*session, error) {
	s := &session{test: t}
	catalog, err := plugin.Open(plugin.Options{
		Registry: r, RuntimeDir: filepath.Join(t.Dir, "sockets"), StartTimeout: t.alarm(), Log: to, Host: s,
		Dial: append(dial, s.replies()),
	})
	if err != nil {
		return nil, err
	}
	s.catalog = catalog
	if err := s.plugin().Start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) plugin() *plugin.Plugin { return s.catalog.Find(s.test.report.Hook) }

// close ends the program, and returns how long that took. It reports a wrong answer to an
// exechost_startup.
func (s *session) close() time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.catalog.Close(ctx); err != nil {
		s.test.log.entry().Error(err)
	}
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.startups {
		s.test.report.check(string(hostapi.EventStartup)).accepted("", a)
	}
	return took
}

// Startup sends a program that has started its exechost_startup.
func (s *session) Startup(ctx context.Context, _ *plugin.Plugin, fresh *plugin.Candidate) (complaint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = fresh
	if !fresh.Gets(hostapi.EventStartup) {
		return ""
	}
	req := &hostapi.Request{Event: hostapi.EventStartup, Node: s.test.Node, JobList: s.test.live.list()}
	out, err := fresh.Call(ctx, req)
	s.startups = append(s.startups, answer{req.Event, out, err, s.lastReply()})
	if err == nil {
		s.test.live.update(out)
	}
	return ""
}

// Called implements plugin.Host.
func (s *session) Called(string, *hostapi.Outcome, error, time.Duration) {}

// call sends an event.
func (s *session) call(ctx context.Context, req *hostapi.Request) answer {
	out, err := s.catalog.Place(s.test.report.Hook).Call(ctx, req)
	return answer{req.Event, out, err, s.lastReply()}
}

// program returns the state of the program.
func (s *session) program() plugin.Status { return s.catalog.Programs()[0] }

// liveJobs are the jobs that a program gets at exechost_startup and exechost_periodic.
type liveJobs struct {
	mu   sync.Mutex
	jobs map[string]hostapi.Job
}

func (l *liveJobs) list() map[string]*hostapi.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := map[string]*hostapi.Job{}
	for id, job := range l.jobs {
		jobs[id] = &job
	}
	return jobs
}

func (l *liveJobs) set(job hostapi.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[job.ID] = job
}

func (l *liveJobs) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, id)
}

// update stores the states of jobs that an answer to an event of the host has.
func (l *liveJobs) update(out *hostapi.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, u := range out.Jobs {
		if job, ok := l.jobs[id]; ok && u.State != nil {
			job.State = u.State
			l.jobs[id] = job
		}
	}
}
