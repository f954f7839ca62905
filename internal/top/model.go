// Package top is the live view of a node's jobs: rows, their order, the layout, and the answers to
// keys. Figures come from a Source, which is queried only while somebody watches.
package top

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/hookhost/hookhost/internal/api"
)

// Source supplies the figures: the client of the daemon.
type Source interface {
	// Present returns the live jobs with their usage.
	Present(ctx context.Context) (api.PresentJobs, error)
	// ProcessesOf returns a job's processes. It fails with api.ErrNotFound if the job has ended.
	ProcessesOf(ctx context.Context, job string) (api.JobProcesses, error)
}

const (
	// Least is the shortest interval between two samples.
	Least = 500 * time.Millisecond
	// answerTime bounds the wait for one sample.
	answerTime = 10 * time.Second
)

// model holds the contents of the terminal. It is a bubbletea model, which only messages change.
type model struct {
	ctx    context.Context
	source Source
	every  time.Duration
	userOf func(uid int) string
	arrows arrows

	width, height int

	round   int  // answers and ticks of earlier rounds do not ask again
	fresh   int  // samples of the current list
	help    bool // the keys' page is shown
	typing  bool // keys go into the filter
	filter  string
	err     error // why the last sample failed
	message string

	node     string
	capacity api.Capacity
	before   map[string]api.Present
	all      []jobRow
	jobs     list[jobRow]

	job       string // whose processes are shown; "" is the list of jobs
	beforeOf  map[processID]api.JobProcess
	processes list[processRow]
	existing  int // processes of the job
}

// sampled is a sample, or why there is none.
type sampled struct {
	round     int
	jobs      api.PresentJobs
	job       string
	processes api.JobProcesses
	err       error
	ended     bool // the job whose processes were asked for has ended
}

// due means that it is time for the next sample.
type due struct{ round int }

func newModel(ctx context.Context, source Source, every time.Duration, userOf func(uid int) string) model {
	m := model{ctx: ctx, source: source, every: every, userOf: userOf, arrows: asciiArrows, width: 80, height: 24}
	m.jobs = list[jobRow]{
		columns: jobColumns, order: order{title: "CPU"}, key: func(r *jobRow) string { return r.id },
	}
	m.processes = newProcessList()
	return m
}

func newProcessList() list[processRow] {
	return list[processRow]{columns: processColumns, order: order{title: "CPU%"}, key: pidText}
}

// Init asks for the first sample.
func (m model) Init() tea.Cmd { return m.ask() }

// ask requests a sample for the current list.
func (m model) ask() tea.Cmd {
	ctx, source, round, job := m.ctx, m.source, m.round, m.job
	return func() tea.Msg { return sample(ctx, source, round, job) }
}

func sample(ctx context.Context, source Source, round int, job string) sampled {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s := sampled{round: round, job: job}
	if s.jobs, s.err = source.Present(ctx); s.err != nil || job == "" {
		return s
	}
	s.processes, s.err = source.ProcessesOf(ctx, job)
	if errors.Is(s.err, api.ErrNotFound) {
		s.ended, s.err = true, nil
	}
	return s
}

// again requests a sample of another list immediately.
func (m model) again() (model, tea.Cmd) {
	m.round++
	m.fresh = 0
	return m, m.ask()
}

// Update handles a message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case sampled:
		return m.receive(msg)
	case due:
		if msg.round == m.round {
			return m, m.ask()
		}
	case tea.KeyPressMsg:
		if m.typing {
			return m.typed(msg), nil
		}
		return m.key(msg.String())
	}
	return m, nil
}

// receive handles a sample and schedules the next one. Busy cpus need two samples, so the second
// comes soon.
func (m model) receive(s sampled) (tea.Model, tea.Cmd) {
	if m.err = s.err; s.err == nil {
		m.message = ""
		m.receiveJobs(s.jobs)
		switch {
		case s.ended && s.job == m.job:
			m.message = "job " + m.job + " has ended"
			m.job = ""
		case s.job != "" && s.job == m.job:
			m.receiveProcesses(s.processes)
		}
		m.fresh++
	}
	if s.round != m.round {
		return m, nil
	}
	wait := m.every
	if m.fresh == 1 {
		wait = min(wait, Least)
	}
	return m, tea.Tick(wait, func(time.Time) tea.Msg { return due{round: s.round} })
}

func (m *model) receiveJobs(s api.PresentJobs) {
	m.node, m.capacity = s.Node, s.Capacity
	before := m.before
	m.before = make(map[string]api.Present, len(s.Jobs))
	m.all = make([]jobRow, 0, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		m.before[j.ID] = j.UsesHere
		m.all = append(m.all, newJobRow(j, before[j.ID]))
	}
	m.sift()
}

// sift shows the jobs that match the filter.
func (m *model) sift() {
	rows := slices.Clone(m.all)
	m.jobs.set(slices.DeleteFunc(rows, func(r jobRow) bool { return !r.matches(m.filter) }))
}

func (m *model) receiveProcesses(s api.JobProcesses) {
	before := m.beforeOf
	m.beforeOf = make(map[processID]api.JobProcess, len(s.Processes))
	rows := make([]processRow, 0, len(s.Processes))
	owner := m.owner()
	for i := range s.Processes {
		p := &s.Processes[i]
		id := processID{p.PID, p.StartTime}
		m.beforeOf[id] = *p
		rows = append(rows, newProcessRow(p, before[id], m.userName(p.UID, owner)))
	}
	m.existing = s.All
	m.processes.set(rows)
}

// owner returns the row of the job whose processes are shown.
func (m *model) owner() *jobRow {
	i := slices.IndexFunc(m.all, func(r jobRow) bool { return r.id == m.job })
	if i < 0 {
		return nil
	}
	return &m.all[i]
}

// userName takes the owner's name from the job, since this program may not know all of the site's
// users.
func (m *model) userName(uid int, owner *jobRow) string {
	if owner != nil && owner.uid == uid && owner.user != "" {
		return owner.user
	}
	return m.userOf(uid)
}
