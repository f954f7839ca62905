package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// small is a ledger on a file system of its own, which can be filled, with a backlog elsewhere.
type small struct {
	*Ledger
	t   testing.TB
	dir string
}

func newSmall(t testing.TB) *small {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("HOOKHOST_KERNEL_TESTS") == "required" {
			t.Fatal("kernel tests are required and need root")
		}
		t.Skip("needs root: mounts a tmpfs")
	}
	dir := t.TempDir()
	must.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	l := OpenWithBacklog(filepath.Join(dir, "ledger.jsonl"), filepath.Join(t.TempDir(), "backlog.jsonl"))
	return &small{Ledger: l, t: t, dir: dir}
}

// fill takes all the space that is left.
func (s *small) fill() {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must.NoError(s.t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		s.t.Fatal(err)
	}
}

func (s *small) free() { must.NoError(s.t, os.Remove(filepath.Join(s.dir, "filler"))) }

// end is AppendOnce of a job that ended just now, with a report longer than a page.
func (s *small) end(job string) error {
	return s.AppendOnce(context.Background(), job, "1", 1000, time.Now(), strings.Repeat("x", 5000))
}

// names returns the jobs of a list in order.
func names(t testing.TB, l *Ledger, q Query) (jobs []string) {
	t.Helper()
	must.NoError(t, l.All(context.Background(), q, func(e Entry) bool { jobs = append(jobs, e.Job); return true }))
	return jobs
}

// Reports of a full disk wait, are found meanwhile, and are in the ledger once when there is space.
func TestReportsWaitWhileTheDiskIsFull(t *testing.T) {
	s := newSmall(t)
	must.NoError(t, s.end("1.srv"))
	s.fill()
	for i, job := range []string{"2.srv", "3.srv", "2.srv"} {
		var waits *WaitingError
		if err := s.end(job); !errors.As(err, &waits) || waits.First != (i == 0) || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("job %s on a full disk: %v, %+v", job, err, waits)
		}
	}
	if moved, err := s.Drain(t.Context()); !errors.Is(err, unix.ENOSPC) || moved != 0 {
		t.Errorf("drain on a full disk: %d, %v", moved, err)
	}
	look := func(l *Ledger) {
		t.Helper()
		must.Equal(t, "", []string{"1.srv", "2.srv", "3.srv"}, names(t, l, Query{}))
		must.Equal(t, "", []string{"3.srv", "2.srv", "1.srv"}, names(t, l, Query{Newest: true}))
		if _, found, err := l.Last(t.Context(), "2.srv"); !found || err != nil {
			t.Errorf("a job that waits: %t, %v", found, err)
		}
	}
	look(s.Ledger)
	look(OpenWithBacklog(s.path, s.backlog.path))
	s.free()
	must.NoError(t, s.end("2.srv")) // a host that died before it had forgotten the job, and now has space
	look(s.Ledger)
	waiting, err := os.ReadFile(s.backlog.path)
	must.NoError(t, err)
	for i, want := range []int{2, 0, 2} {
		if i == 2 { // killed before the backlog was removed
			must.NoError(t, os.WriteFile(s.backlog.path, waiting, 0o600))
			look(s.Ledger)
		}
		if moved, err := s.Drain(t.Context()); moved != want || err != nil {
			t.Errorf("drain: %d, %v, want %d", moved, err, want)
		}
	}
	must.Equal(t, "", []string{"1.srv", "2.srv", "3.srv"}, names(t, Open(s.path), Query{}))
	if _, err := os.Stat(s.backlog.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the backlog: %v", err)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	s := newSmall(t)
	s.fill()
	must.NoError(t, os.WriteFile(s.backlog.path, nil, 0o600))
	must.NoError(t, os.Truncate(s.backlog.path, maxBacklog))
	var waits *WaitingError
	if err := s.end("1.srv"); errors.As(err, &waits) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
}

func TestDamagedBacklogCostsNoOther(t *testing.T) {
	s := newSmall(t)
	s.fill()
	for _, job := range []string{"1.srv", "2.srv", "3.srv"} {
		s.end(job)
	}
	text, err := os.ReadFile(s.backlog.path)
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(s.backlog.path, bytes.Replace(text, []byte(`"2.srv"`), []byte(`"2.srx"`), 1), 0o600))
	s.free()
	var damage *DamageError
	if moved, err := s.Drain(t.Context()); moved != 2 || !errors.As(err, &damage) ||
		!strings.Contains(err.Error(), "backlog.jsonl:2 (job 2.srx)") {
		t.Errorf("drain: %d, %v", moved, err)
	}
	must.Equal(t, "", []string{"1.srv", "3.srv"}, names(t, s.Ledger, Query{}))
}

// appendAndDrain is a process that appends until it is killed, and says which of its entries are
// safe.
func appendAndDrain(l *Ledger) {
	for i := 0; ; i++ {
		if i%20 == 0 {
			l.Drain(context.Background()) // the disk may be full
		}
		err := l.AppendOnce(context.Background(), fmt.Sprintf("%d.srv", os.Getpid()), fmt.Sprint(i), 1000, time.Now(),
			report(i))
		var waits *WaitingError
		if err != nil && !errors.As(err, &waits) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

// A writer is killed again and again while its disk fills and empties. Each entry that it knew to
// be safe is in the ledger once in the end.
func TestKilledWriterOfAFullDiskLosesAndDoublesNothing(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	s := newSmall(t)
	s.Ledger.path = filepath.Join(s.dir, "ledger.jsonl")
	must.NoError(t, unix.Mount("tmpfs", s.dir, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	rnd := rand.New(rand.NewPCG(3, 4))
	safe := map[string]int{}
	for round := range rounds {
		if round%2 == 0 {
			s.fill()
		} else {
			s.free()
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LEDGER_CHILD=0", "LEDGER_PATH="+s.path, "LEDGER_BACKLOG="+s.backlog.path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must.NoError(t, err)
		must.NoError(t, cmd.Start())
		told := make(chan int, 1)
		go func() {
			n := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				n++
			}
			told <- n
		}()
		time.Sleep(time.Duration(5000+rnd.IntN(40_000)) * time.Microsecond)
		cmd.Process.Kill()
		safe[fmt.Sprintf("%d.srv", cmd.Process.Pid)] = <-told
		cmd.Wait()
	}
	os.Remove(filepath.Join(s.dir, "filler"))
	_, err := s.Drain(t.Context())
	must.NoError(t, err)
	stored := map[string]int{}
	must.NoError(t, s.All(t.Context(), Query{}, func(e Entry) bool {
		var r testReport
		if err := json.Unmarshal(e.Report, &r); err != nil || e.Key != fmt.Sprint(r.N) {
			t.Errorf("%s %s: %v", e.Job, e.Key, err)
		}
		stored[e.Job]++
		return true
	}))
	all := 0
	for job, n := range safe {
		if all += n; stored[job] < n || stored[job] > n+1 {
			t.Errorf("job %s: %d entries, the writer knew of %d", job, stored[job], n)
		}
	}
	t.Logf("%d entries", all)
	found, err := s.Verify(t.Context(), func(int64, int64) {})
	if err != nil || found.Damage != nil || len(found.Twice) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
