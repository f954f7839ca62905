package jobstate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hookhost/hookhost/hostapi"
)

// The test binary is also the processes that share a store with the test: JOBSTATE_CHILD names what to be.
func TestMain(m *testing.M) {
	if role := os.Getenv("JOBSTATE_CHILD"); role != "" {
		if err := children[role](os.Getenv("JOBSTATE_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var children = map[string]func(dir string) error{"writer": writer, "counter": counter}

// writer rewrites one record for ever, telling the number of each version once it is stored.
func writer(dir string) error {
	s, err := Open(dir, OnDamage(func(path string, err error) { fmt.Fprintln(os.Stderr, path, err); os.Exit(1) }))
	if err != nil {
		return err
	}
	for {
		n := 0
		err := s.Update(context.Background(), "1.srv", func(r *Record) (*Record, error) {
			if r != nil {
				n = len(r.Notes) // a version of its own size: pages are split, joined and grow over
			}
			if n++; n > 200 {
				n = 1
			}
			return version(n), nil
		})
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// version returns the nth version of job 1.srv, in which every part tells n.
func version(n int) *Record {
	r := sample("1.srv")
	r.Notes = slices.Repeat([]string{strconv.Itoa(n) + strings.Repeat("x", 40)}, n)
	r.ExitStatus = &n
	return r
}

const (
	counters = 8
	counts   = 100
)

// counter adds 1 to the same record many times and tells the job numbers it drew.
func counter(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range counts {
		err := s.Update(ctx, "1.srv", func(r *Record) (*Record, error) {
			if r == nil {
				r = sample("1.srv")
				r.ExitStatus = new(int)
			}
			*r.ExitStatus++
			return r, nil
		})
		if err != nil {
			return err
		}
		if i%10 == 0 {
			n, err := s.NextSequence(ctx)
			if err != nil {
				return err
			}
			fmt.Println(n)
		}
	}
	return nil
}

// startChild starts a process in that role; its stdout is lines.
func startChild(t *testing.T, role, dir string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "JOBSTATE_CHILD="+role, "JOBSTATE_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func sample(id string) *Record {
	seconds, mem := 12.5, int64(64<<20)
	return &Record{
		Job: &hostapi.Job{
			ID: id, Name: "train", Owner: hostapi.Owner{User: "alice", UID: 1000, GID: 1000},
			ExecVnode:    "(h:ncpus=2:mem=65536kb)",
			ResourceList: hostapi.Resources{"ncpus": "2", "mem": "64mb", "walltime": "00:10:00"},
		},
		Phase:    PhaseRunning,
		Host:     hostapi.ProcessID{PID: 42, StartTime: 4711, BootID: "c2d6a1f0-0000-4000-8000-000000000000"},
		Begun:    time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Launched: Moment{Wall: time.Date(2026, 3, 1, 12, 0, 1, 5, time.UTC), Boot: "c2d6a1f0-0000-4000-8000-000000000000", Mono: 77 * time.Second},
		Hosts:    map[string]*hostapi.HostUsage{"h": {CPUs: "0-1", Mems: "0", NCPUs: 2, CPUTSeconds: &seconds, MemBytes: &mem}},
	}
}

// store opens a store in dir that must not find any damage.
func store(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, OnDamage(func(path string, err error) { t.Errorf("damage: %s: %v", path, err) }))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put stores records.
func put(t testing.TB, s *Store, recs ...*Record) {
	t.Helper()
	for _, r := range recs {
		if err := s.Update(t.Context(), r.Job.ID, func(*Record) (*Record, error) { return r, nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t testing.TB, s *Store) []*Record {
	t.Helper()
	recs, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// asides returns the files that were set aside in dir.
func asides(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, fileName+".damaged-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var errStop = errors.New("stop")
