package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

// reportOf is the report of a job of nobody's that has ended.
func reportOf(id string, status int) *report.Report {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end := start.Add(time.Minute)
	return &report.Report{Job: id, Owner: "nobody", Start: &start, End: &end, ExitStatus: &status,
		Hosts: map[string]*hostapi.HostUsage{"n1": {NCPUs: 1}},
		PBSJob: &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "nobody", UID: nobody, GID: nobody},
			MotherSuperior: true}}
}

// commonDir is a directory of root's that all users can reach.
func commonDir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("/tmp", "hh-delivery")
	must.NoError(t, err, os.Chmod(dir, mode))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// messages holds what is logged, from the level info on.
type messages struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(p)
}

func (m *messages) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

func newLog() (*logrus.Entry, *messages) {
	log, m := logrus.New(), &messages{}
	log.SetOutput(m)
	return logrus.NewEntry(log), m
}

// close delivers all that waits.
func closed(t *testing.T, d *Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d.Close(ctx)
	if ctx.Err() != nil {
		t.Fatal("not delivered in time")
	}
}

func TestReportsOfJobsThatRanAreDeliveredToAllTargets(t *testing.T) {
	dir := commonDir(t, 0o755)
	out := filepath.Join(commonDir(t, 0o777), "out")
	command := program(t, "cat >>"+out)
	log, said := newLog()
	d := Open(func() Targets { return Targets{Directory: dir, Command: command} }, log)
	points := series.Job{"n1": {Host: &hostapi.Series{}}}
	d.Send(reportOf("1.s", 3), points)
	sister := reportOf("2.s", 0)
	sister.PBSJob.MotherSuperior = false
	unstarted := reportOf("3.s", 0)
	unstarted.NotStarted = true
	d.Send(sister, nil)
	d.Send(unstarted, nil)
	d.Send(reportOf("4.s", 0), nil)
	closed(t, d)
	names, err := filepath.Glob(dir + "/nobody/*")
	must.NoError(t, err)
	want := []string{"1.s.html", "1.s.json", "4.s.html", "4.s.json"}
	for i := range want {
		want[i] = filepath.Join(dir, "nobody", want[i])
	}
	must.Equal(t, "files", want, names)
	sent, err := os.ReadFile(out)
	must.NoError(t, err)
	parts, err := report.ReadParts(bytes.NewReader(sent), out)
	must.NoError(t, err)
	if len(parts) != 2 || parts[0].Job != "1.s" || parts[0].Hosts["n1"].Series == nil || said.String() != "" {
		t.Errorf("%s; the log says %s", sent, said)
	}
}

// The log has the first failure of a target, and that it works again.
func TestFailuresOfATargetAreLoggedOnce(t *testing.T) {
	log, said := newLog()
	answers := make(chan error, 5)
	for _, err := range []error{errors.New("full"), errors.New("full"), nil, nil, errors.New("gone")} {
		answers <- err
	}
	target := newTarget("reports.directory", time.Minute, nil, nil)
	for i := range 5 {
		target.note(log, fmt.Sprint(i), <-answers)
	}
	text := said.String()
	for _, want := range []string{
		`level=error msg="reports.directory: full; further`, `"reports.directory works again"`, ": gone; further",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q in the log: %s", want, text)
		}
	}
	must.Equal(t, "lines", 3, strings.Count(text, "\n"))
}

// A file system may hang for ever. No event waits for it, and no more than one thread does.
func TestTargetThatHangsHoldsNobodyUp(t *testing.T) {
	log, said := newLog()
	hang := make(chan struct{})
	var calls atomic.Int32
	stuck := newTarget("reports.directory", 20*time.Millisecond, func(t Targets) string { return t.Directory },
		func(context.Context, string, *report.Report) error {
			calls.Add(1)
			<-hang
			return nil
		})
	d := open(func() Targets { return Targets{Directory: "/x"} }, log, time.Minute)
	d.targets[0] = stuck
	for i := range mostWaiting + 10 { // none of these waits
		d.Send(reportOf(fmt.Sprint(i), 0), nil)
	}
	must.Eventually(t, "a failure is logged", func() bool { return strings.Contains(said.String(), "level=error") })
	closed(t, d)
	must.Equal(t, "calls", int32(1), calls.Load())
	must.Equal(t, "lines", 1, strings.Count(said.String(), "\n"))
	close(hang)
}
