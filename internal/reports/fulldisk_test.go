package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// fullDisk has no room for the reports of a store until free is called.
func fullDisk(t *testing.T, s *Store) (free func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		kernfstest.Skip(t, "mounting a tmpfs needs root")
	}
	must.NoError(t, os.MkdirAll(s.dir, 0o700))
	must.NoError(t, unix.Mount("hookhost-test", s.dir, "tmpfs", 0, "mode=700,size=64k"))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(s.dir, unix.MNT_DETACH)) })
	filler := filepath.Join(s.dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() { must.NoError(t, os.Remove(filler)) }
}

// A report that cannot be written is found as any other. When there is room, each is on disk once.
func TestReportsWaitWhileTheDiskIsFull(t *testing.T) {
	s := opened(t, roomy)
	free := fullDisk(t, s)
	for i := range 3 {
		var waits *WaitingError
		err := s.Write(ended(fmt.Sprintf("%d.srv", i), alice, noon.Add(time.Duration(i)*time.Second), 0), nil)
		if !errors.As(err, &waits) || waits.First != (i == 0) || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("report %d: %v", i, err)
		}
	}
	s.put(t, ended("1.srv", alice, noon.Add(time.Second), 9)) // once more
	if moved, err := s.Drain(); moved != 0 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("drained to a full disk: %d, %v", moved, err)
	}
	whole := func(when string) {
		jobs, err := s.listed(t, Query{})
		must.NoError(t, err)
		must.Equal(t, when, "0.srv 1.srv 2.srv", strings.Join(jobs, " "))
		r, err := s.Last(t.Context(), "1.srv", everybody)
		must.NoError(t, err)
		must.Equal(t, when, 0, *r.ExitStatus)
	}
	whole("while they wait")
	for _, dir := range []string{s.dir, s.waiting} {
		for _, path := range paths(t, dir) {
			if strings.HasSuffix(path, ".tmp") {
				t.Errorf("left: %s", path)
			}
		}
	}
	free()
	// A daemon that was killed while it moved them has left one in both places.
	first := paths(t, s.waiting)[0]
	name, _ := parseName(filepath.Base(first))
	content, err := os.ReadFile(first)
	must.NoError(t, err)
	must.NoError(t, place(s.dir, name, content))
	whole("while they are moved")
	moved, err := s.Drain()
	must.NoError(t, err)
	must.Equal(t, "moved", 3, moved)
	whole("when they are on disk")
	if _, err := os.Stat(s.waiting); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the waiting directory: %v", err)
	}
	moved, err = s.Drain()
	must.NoError(t, err)
	must.Equal(t, "moved again", 0, moved)
}

// Reports wait in memory, so there is a bound.
func TestReportsThatWaitAreBounded(t *testing.T) {
	s := opened(t, roomy)
	fullDisk(t, s)
	must.NoError(t, os.MkdirAll(s.waiting, 0o700))
	must.NoError(t, os.WriteFile(filepath.Join(s.waiting, "large"), nil, 0o600))
	must.NoError(t, os.Truncate(filepath.Join(s.waiting, "large"), maxWaiting))
	err := s.Write(ended("1.srv", alice, noon, 0), nil)
	var waits *WaitingError
	if err == nil || errors.As(err, &waits) {
		t.Errorf("one more waits: %v", err)
	}
}
