package main_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// soakConfig has points in the series of jobs of a second.
const soakConfig = "[host]\nnode = \"n1\"\n[series]\ninterval = \"1s\""

// soak is a node on which jobs come and go for a long time.
type soak struct {
	*node
	daemon *daemon
	jobs   int
	begun  atomic.Int64
	ended  atomic.Int64
	live   int // files below the socket's directory after the first jobs
}

// mark is a moment of a soak: what the node's programs hold, and what lies on disk.
type mark struct {
	jobs       int64
	programs   map[string]held
	goroutines int
	live       int   // files below the socket's directory
	state      int64 // bytes
}

// held is what one program holds.
type held struct {
	files, threads int
	memory         int // kB of it, resident and the program's own
}

// TestManyJobsLeaveTheNodeAsTheFirstOnesDid runs one job after another in each of three lanes. The
// first lane is of `hookhost run`, the second of events, the third of jobs that last a second.
// HOOKHOST_SOAK_JOBS is how many jobs there are.
//
// From a quarter of the jobs on no program opens more files or has more goroutines or memory. The
// live jobs' files are gone, and each job has one report.
func TestManyJobsLeaveTheNodeAsTheFirstOnesDid(t *testing.T) {
	n := newNode(t, soakConfig)
	s := &soak{node: n, daemon: n.serve(), jobs: int(setting(t, "HOOKHOST_SOAK_JOBS", 80))}
	began := time.Now()
	var marks []mark
	parts := max(4, s.jobs/1000)
	ctx := untilInterrupted(t)
	for part := range parts {
		s.runUntil(ctx, int64(s.jobs*(part+1)/parts))
		if ctx.Err() != nil {
			s.daemon.stop()
			t.Fatalf("interrupted after %d jobs", s.ended.Load())
		}
		marks = append(marks, s.mark())
		if part == parts/4-1 {
			s.live = marks[part].live
		}
		t.Logf("%d jobs after %v: %s", s.ended.Load(), time.Since(began).Round(time.Second), marks[part])
	}
	first := marks[parts/4-1]
	more := 4 + 2*runtime.NumCPU() // threads, which Go starts where system calls stall
	for _, m := range marks[parts/4:] {
		for name, now := range m.programs {
			before := first.programs[name]
			if now.files > before.files+2 || now.memory > before.memory*5/4+4096 || now.threads > before.threads+more {
				t.Errorf("after %d jobs %s holds %+v, after %d %+v", m.jobs, name, now, first.jobs, before)
			}
		}
		if m.goroutines > first.goroutines+5 {
			t.Errorf("after %d jobs: %s, after %d: %s", m.jobs, m, first.jobs, first)
		}
	}
	s.daemon.stop()
	s.everyJobHasOneReport()
}

// runUntil has the lanes run jobs until so many have begun or ctx ends.
func (s *soak) runUntil(ctx context.Context, jobs int64) {
	s.t.Helper()
	var lanes sync.WaitGroup
	for _, job := range []func(id string) error{s.byRun, s.byEvents, s.ofASecond} {
		lanes.Go(func() {
			for number := s.begun.Add(1); number <= jobs && ctx.Err() == nil; number = s.begun.Add(1) {
				if err := job(fmt.Sprintf("%d.soak", number)); err != nil {
					s.t.Errorf("job %d: %v", number, err)
				}
				s.ended.Add(1)
			}
			s.begun.Add(-1)
		})
	}
	lanes.Wait()
}

func (s *soak) byRun(id string) error {
	return s.run(id, "true")
}

// ofASecond is a job that has points in its series.
func (s *soak) ofASecond(id string) error {
	return s.run(id, "sleep", "1.2")
}

func (s *soak) run(id string, program ...string) error {
	args := []string{"run", "--job", id, "-l", "select=1:ncpus=0:mem=64mb", "--report=none", "--"}
	cmd := apart(exec.Command(filepath.Join(built, "hookhost"), append(args, program...)...))
	cmd.Env = s.env()
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// byEvents is a job whose MoM is the test. The epilogue kills its program.
func (s *soak) byEvents(id string) error {
	client, err := api.Dial(s.path("run/s"))
	if err != nil {
		return err
	}
	defer client.Close()
	program := exec.Command("sleep", "1000")
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := program.Start(); err != nil {
		return err
	}
	defer program.Wait()
	defer program.Process.Kill()
	for _, event := range []hostapi.Event{
		hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventLaunch, hostapi.EventEpilogue, hostapi.EventEnd,
	} {
		req := &hostapi.Request{Event: event, PID: program.Process.Pid, Job: &hostapi.Job{
			ID: id, Owner: hostapi.Owner{User: "root"}, MotherSuperior: true,
			ResourceList: hostapi.Resources{"ncpus": "0", "mem": "64mb", "walltime": "01:00:00"},
		}}
		switch out, err := client.Handle(context.Background(), req); {
		case err != nil:
			return fmt.Errorf("%s: %w", event, err)
		case out.Reject:
			return fmt.Errorf("%s: rejected: %s", event, out.Message)
		}
	}
	return nil
}

// mark looks at the node.
func (s *soak) mark() mark {
	s.t.Helper()
	time.Sleep(2 * time.Second)
	m := mark{jobs: s.ended.Load(), programs: map[string]held{}}
	m.goroutines = int(valueOf(s.t, s.scrape(), "go_goroutines"))
	pids := s.daemon.programs()
	for name, pid := range pids {
		m.programs[name] = heldBy(s.t, pid)
	}
	must.Eventually(s.t, "no more live files than after the first jobs", func() bool {
		m.live, _ = s.below("run")
		return s.live == 0 || m.live <= s.live
	})
	_, m.state = s.below("state")
	if left := s.jobDirs(); len(left) > 0 {
		s.t.Errorf("after %d jobs: cgroups left: %v", m.jobs, left)
	}
	return m
}

func (m mark) String() string {
	var programs []string
	for _, name := range []string{"host", "cgroup", "devices", "walltime"} {
		h := m.programs[name]
		programs = append(programs, fmt.Sprintf("%s %d files %d threads %d kB", name, h.files, h.threads, h.memory))
	}
	return fmt.Sprintf("%s; %d goroutines, %d live files, %d B of state a job", strings.Join(programs, ", "),
		m.goroutines, m.live, m.state/max(m.jobs, 1))
}

// heldBy looks at a process.
func heldBy(t testing.TB, pid int) held {
	t.Helper()
	h := held{files: openFiles(t, pid)}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "RssAnon: %d", &h.memory)
		fmt.Sscanf(line, "Threads: %d", &h.threads)
	}
	return h
}

// below counts the files of a directory, and their bytes.
func (s *soak) below(dir string) (files int, size int64) {
	s.t.Helper()
	must.NoError(s.t, filepath.WalkDir(s.path(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		files, size = files+1, size+info.Size()
		return err
	}))
	return files, size
}

func (s *soak) everyJobHasOneReport() {
	s.t.Helper()
	reports := s.reported()
	for number := range s.jobs {
		if id := fmt.Sprintf("%d.soak", number+1); reports[id] != 1 {
			s.t.Errorf("job %s has %d reports", id, reports[id])
		}
	}
	if len(reports) != s.jobs {
		s.t.Errorf("%d jobs have reports, want %d", len(reports), s.jobs)
	}
}
