package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "write the golden files")

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// use is a job's present use, that many seconds after the first sample.
func use(at, cpu float64, mem, limit int64) api.Present {
	p := api.Present{
		At: start.Add(time.Duration(at * float64(time.Second))), CPUSeconds: &cpu, MemBytes: &mem,
		CacheBytes: ptr(mem / 4), Pids: ptr(int64(17)), OOMKills: ptr(int64(0)),
		ReadBytes: ptr(int64(at * 12e6)), WriteBytes: ptr(int64(at * cpu * 5000)),
	}
	if limit > 0 {
		p.MemLimitBytes = &limit
	}
	return p
}

// node returns the samples of a node with jobs of all kinds, at a time after the first.
func node(at float64) api.PresentJobs {
	const gb = 1 << 30
	leaking := use(at, 100+at, 61*gb, 64*gb)
	leaking.OOMKills = ptr(int64(3))
	gpu := []hostapi.DeviceUsage{
		{ID: "a", Resource: "ngpus", UtilizationPercent: ptr(90.0)},
		{ID: "b", Resource: "ngpus", UtilizationPercent: ptr(70.0)},
	}
	return api.PresentJobs{
		Node: "n1", Capacity: api.Capacity{CPUs: 64, MemBytes: 256 * gb, MemAvailable: 180 * gb},
		Jobs: []api.PresentJob{
			{ID: "1001.server", Name: "steady", User: "alice", UID: 1001, Phase: "running", Elapsed: ptr(3725 + at),
				Left: ptr(86400.0*3 + 7200), NCPUs: 4, Hosts: 1, UsesHere: use(at, 100+3.9*at, 12*gb, 64*gb)},
			{ID: "1002.server", Name: "leak", User: "bob", UID: 1002, Phase: "running", Elapsed: ptr(42 + at),
				Left: ptr(90.0), NCPUs: 16, Hosts: 1, UsesHere: leaking},
			{ID: "1003.server", Name: "train", User: "carol", UID: 1003, Phase: "suspended",
				Elapsed: ptr(86400.0 * 120), NCPUs: 8, Hosts: 3, Devices: gpu, UsesHere: use(at, 5000, 512<<20, 0)},
			{ID: "1004[17].server", Name: "\x1b[2J名前\u202e", User: "dave", UID: 1004, Phase: "prerun"},
		},
	}
}

// shown is a model that has taken two samples, two seconds apart.
func shown(width, height int) model {
	m := newModel(context.Background(), nil, time.Second, func(uid int) string { return fmt.Sprint(uid) })
	m.width, m.height = width, height
	m.receiveJobs(node(0))
	m.receiveJobs(node(2))
	return m
}

// screen is what a person reads, without the spaces at the ends of lines.
func screen(m model) string {
	lines := strings.Split(ansi.Strip(strings.Join(m.lines(), "\n")), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func press(t *testing.T, m model, keys ...string) model {
	t.Helper()
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "end": tea.KeyEnd}
	for _, key := range keys {
		k := tea.KeyPressMsg{Code: codes[key]}
		if k.Code == 0 {
			k = tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		}
		next, _ := m.Update(k)
		m = next.(model)
	}
	return m
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must.NoError(t, err)
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", name, got)
	}
}

func TestIdleGPUIsInRedAfterAMinute(t *testing.T) {
	for _, tt := range []struct {
		elapsed *float64
		percent []*float64
		want    bool
	}{
		{ptr(61.0), []*float64{ptr(90.0), ptr(0.0)}, true},
		{ptr(59.0), []*float64{ptr(90.0), ptr(0.0)}, false},
		{nil, []*float64{ptr(0.0)}, false},
		{ptr(3600.0), []*float64{ptr(0.1), nil}, false}, // what is not measured is not idle
	} {
		j := api.PresentJob{ID: "1.srv", Elapsed: tt.elapsed}
		for _, percent := range tt.percent {
			j.Devices = append(j.Devices, hostapi.DeviceUsage{Resource: "ngpus", UtilizationPercent: percent})
		}
		row := newJobRow(&j, api.Present{})
		for _, c := range jobColumns {
			if c.title == "GPU" && c.warns(&row) != tt.want {
				t.Errorf("%v: in red %t", tt, !tt.want)
			}
		}
	}
}

func TestOneOfAThingIsInTheSingular(t *testing.T) {
	m := shown(80, 24)
	m.all, m.capacity.CPUs, m.existing = m.all[:1], 1, 1
	for _, text := range []string{m.summary(), m.processStatus()} {
		for _, plural := range []string{"1 jobs", "1 cpus", "1 processes"} {
			if strings.Contains(text, plural) {
				t.Error(text)
			}
		}
	}
}

func TestFrameFillsTheTerminalAndNoMore(t *testing.T) {
	for _, size := range []struct{ width, height int }{{80, 24}, {200, 50}, {40, 8}, {10, 3}} {
		for _, keys := range [][]string{nil, {"?"}, {"/", "x"}, {"enter"}} {
			m := press(t, shown(size.width, size.height), keys...)
			lines := m.lines()
			if len(lines) > size.height {
				t.Errorf("%v, keys %v: %d lines", size, keys, len(lines))
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > size.width {
					t.Errorf("%v, keys %v: %d columns: %q", size, keys, ansi.StringWidth(l), l)
				}
			}
		}
	}
	golden(t, "jobs-80x24.txt", screen(shown(80, 24)))
	golden(t, "jobs-200x50.txt", screen(shown(200, 50)))
	golden(t, "help-80x24.txt", screen(press(t, shown(80, 24), "?")))
}

func TestOrdinaryTerminalShowsNamesMemoryAndDisks(t *testing.T) {
	m := shown(80, 24)
	for i := range m.all {
		m.all[i].gpus = 0
	}
	m.sift()
	want := "JOB       NAME       USER     S    LEFT     CPUv         MEM  MEM%   READ  WRITE\n" +
		"1001      steady     alice    R   3d02h    3.9/4     12G/64G    19  11.4M   526K\n"
	if text := screen(m); !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
}

func TestArrowMarksTheOrderInEachColumn(t *testing.T) {
	for _, keys := range [][]string{nil, {"enter"}} {
		m := press(t, shown(200, 24), keys...)
		m.arrows = unicodeArrows
		for range len(jobColumns) {
			m = press(t, m, "s")
			for range 2 {
				heading := strings.Split(screen(m), "\n")[2]
				if strings.Count(heading, "↓")+strings.Count(heading, "↑") != 1 {
					t.Errorf("%q", heading)
				}
				m = press(t, m, "r")
			}
		}
	}
}

func TestProcessesOfAJobAreShown(t *testing.T) {
	m := press(t, shown(80, 24), "enter")
	if m.job != "1001.server" {
		t.Fatalf("processes of %q", m.job)
	}
	at := func(seconds float64) api.JobProcesses {
		when := start.Add(time.Duration(seconds * float64(time.Second)))
		return api.JobProcesses{All: 2100, Processes: []api.JobProcess{
			{PID: 70, StartTime: 1, UID: 1001, State: "S", At: when, CPUSeconds: 1, RSSBytes: 4 << 20, Threads: 1,
				Comm: "\x1b]0;bash\a"},
			{PID: 71, StartTime: 2, UID: 0, State: "R", At: when, CPUSeconds: 100 + 3.5*seconds, RSSBytes: 9 << 30,
				Threads: 4, Comm: "solver"},
		}}
	}
	m.receiveProcesses(at(0))
	m.receiveProcesses(at(2))
	golden(t, "processes-80x24.txt", screen(m))
	if m = press(t, m, "esc"); m.job != "" {
		t.Error("esc does not lead back")
	}
}

func TestHostileNamesDoNotReachTheTerminal(t *testing.T) {
	m := shown(200, 50)
	m.err = errors.New("\x1b[2J")
	for _, l := range m.lines() {
		if strings.Contains(l, "\x1b[2J") || strings.Contains(l, "\u202e") {
			t.Errorf("%q", l)
		}
	}
}

func ids(m model) (list []string) {
	for _, r := range m.jobs.rows {
		list = append(list, strings.TrimSuffix(r.id, ".server"))
	}
	return list
}

func TestRowsAreSortedByEachColumnWithUnknownLast(t *testing.T) {
	m := shown(0, 24)
	for _, c := range []struct {
		title    string
		reversed bool
		want     []string
	}{
		{"CPU", false, []string{"1001", "1002", "1003", "1004[17]"}},
		{"CPU", true, []string{"1003", "1002", "1001", "1004[17]"}},
		{"LEFT", false, []string{"1001", "1002", "1003", "1004[17]"}},
		{"LEFT", true, []string{"1002", "1001", "1003", "1004[17]"}},
		{"MEM", false, []string{"1002", "1001", "1003", "1004[17]"}},
		{"OF", true, []string{"1001", "1002", "1003", "1004[17]"}},
		{"USER", true, []string{"1004[17]", "1003", "1002", "1001"}},
	} {
		m.jobs.order = order{c.title, c.reversed}
		if m.jobs.sort(); !slices.Equal(ids(m), c.want) {
			t.Errorf("by %s, reversed %v: %v, want %v", c.title, c.reversed, ids(m), c.want)
		}
	}
}

func TestSortKeyGoesThroughTheColumnsThatAreShown(t *testing.T) {
	m := shown(80, 24)
	seen := []string{}
	for range len(fit(jobColumns, m.jobs.rows, 80)) {
		m = press(t, m, "s")
		seen = append(seen, m.jobs.order.title)
	}
	if slices.Contains(seen, "HOSTS") || !slices.Contains(seen, "MEM") || m.jobs.order.title != "CPU" {
		t.Errorf("sorted by %v", seen)
	}
}

func TestFilterFindsJobUserAndName(t *testing.T) {
	for text, want := range map[string][]string{
		"BOB": {"1002"}, "[17]": {"1004[17]"}, "train": {"1003"},
		"server": {"1001", "1002", "1003", "1004[17]"}, "no": nil,
	} {
		m := press(t, shown(80, 24), append([]string{"/"}, append(strings.Split(text, ""), "enter")...)...)
		if got := ids(m); !slices.Equal(got, want) || m.typing {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if m = press(t, m, "esc"); len(m.jobs.rows) != 4 {
			t.Errorf("%q: esc leaves the filter", text)
		}
	}
}

func TestSelectionStaysWithItsJob(t *testing.T) {
	m := press(t, shown(80, 24), "down", "r")
	if got := m.jobs.rows[m.jobs.at].id; got != "1002.server" {
		t.Errorf("selected %s", got)
	}
	m = press(t, m, "end", "down", "down")
	if m.jobs.at != 3 {
		t.Errorf("selected row %d", m.jobs.at)
	}
	s := node(4)
	s.Jobs = s.Jobs[:1]
	m.receiveJobs(s)
	if m.jobs.at != 0 {
		t.Errorf("selected row %d of one", m.jobs.at)
	}
}

func TestLongListScrollsWithTheSelection(t *testing.T) {
	m := shown(80, 10)
	s := node(4)
	s.Jobs = nil
	for i := range 100 {
		s.Jobs = append(s.Jobs, api.PresentJob{ID: fmt.Sprintf("%03d.n1", i), Phase: "running"})
	}
	m.receiveJobs(s)
	for _, want := range []struct{ key, id string }{
		{"end", "099.n1"}, {"k", "098.n1"}, {"g", "000.n1"}, {"j", "001.n1"},
	} {
		m = press(t, m, want.key)
		if !strings.Contains(screen(m), want.id) || m.jobs.selected != want.id {
			t.Errorf("after %s: %s selected\n%s", want.key, m.jobs.selected, screen(m))
		}
	}
}

// failing is a source whose daemon is away.
type failing struct{ err error }

func (f failing) Present(context.Context) (api.PresentJobs, error) { return node(0), f.err }
func (f failing) ProcessesOf(context.Context, string) (api.JobProcesses, error) {
	return api.JobProcesses{}, f.err
}

func TestDaemonThatIsAwayIsSaidAndAskedAgain(t *testing.T) {
	m := shown(80, 24)
	m.source = failing{api.ErrNoHost}
	next, again := m.Update(m.ask()())
	if m = next.(model); !strings.Contains(screen(m), "not reachable") || !strings.Contains(screen(m), "1001.server") ||
		again == nil {
		t.Errorf("asks again: %v\n%s", again != nil, screen(m))
	}
	m.source = failing{}
	next, _ = m.Update(m.ask()())
	if m = next.(model); strings.Contains(screen(m), "not reachable") {
		t.Errorf("it is back:\n%s", screen(m))
	}
}

func TestProcessesOfAJobThatHasEndedLeadBackToTheJobs(t *testing.T) {
	m := press(t, shown(80, 24), "enter")
	next, _ := m.Update(sampled{round: m.round, jobs: node(4), job: m.job, ended: true})
	if m = next.(model); m.job != "" || !strings.Contains(screen(m), "has ended") {
		t.Errorf("%s", screen(m))
	}
}

func TestAmountsFitTheirColumns(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 512: "512B", 1 << 20: "1M", 1023 << 20: "1023M", 10<<30 - 1: "10G", 1 << 62: "4E", 3 << 29: "1.5G",
	} {
		if got := size(&n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{
		0: "0s", 59.9: "59s", 61: "1m01s", 86399: "23h59m", 86400: "1d00h", 100 * 86400: "100d",
	} {
		if got := clock(&n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

func BenchmarkFrameOf200Jobs(b *testing.B) {
	m := shown(200, 50)
	s := node(4)
	for i := range 200 {
		j := s.Jobs[i%3]
		j.ID = fmt.Sprintf("%d.server", 2000+i)
		s.Jobs = append(s.Jobs, j)
	}
	for b.Loop() {
		m.receiveJobs(s)
		m.lines()
	}
}
