package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/hookhost/hookhost/internal/api"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(f.Fd()) }

// Run shows jobs on a terminal until the user quits or ctx ends. If the Source fails, Run shows the
// error and tries again. userOf returns the name of a user. unicode means that the terminal shows
// UTF-8.
func Run(
	ctx context.Context, source Source, every time.Duration, userOf func(uid int) string, unicode bool, out *os.File,
) error {
	m := newModel(ctx, source, max(every, Least), userOf)
	if unicode {
		m.arrows = unicodeArrows
	}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out)).Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("show jobs: %w", err)
	}
	return nil
}

// Once writes one frame as text, with all jobs and all columns.
func Once(ctx context.Context, source Source, out io.Writer) error {
	m := newModel(ctx, source, Least, nil)
	if _, err := m.sampleTwice(); err != nil {
		return err
	}
	columns := fit(m.jobs.columns, m.jobs.rows, 0)
	lines := []string{m.summary(), "", heading(columns, m.jobs.order, m.arrows)}
	for i := range m.jobs.rows {
		lines = append(lines, line(columns, &m.jobs.rows[i], plain))
	}
	for i, text := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(text), " ")
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// onceJob is a job of one frame for programs.
type onceJob struct {
	api.PresentJob
	Busy    *float64 `json:"cpus_busy,omitempty"`
	Read    *float64 `json:"read_bytes_per_second,omitempty"`
	Written *float64 `json:"write_bytes_per_second,omitempty"`
}

// OnceJSON writes the figures of one frame as one JSON object: api.PresentJobs, and each job's busy
// cpus and disk traffic between two samples.
func OnceJSON(ctx context.Context, source Source, out io.Writer) error {
	m := newModel(ctx, source, Least, nil)
	now, err := m.sampleTwice()
	if err != nil {
		return err
	}
	jobs := []onceJob{}
	for i, j := range now.Jobs {
		r := &m.all[i]
		jobs = append(jobs, onceJob{PresentJob: j, Busy: r.busy, Read: r.read, Written: r.written})
	}
	return json.NewEncoder(out).Encode(struct {
		api.PresentJobs
		Jobs []onceJob `json:"jobs"`
	}{now, jobs})
}

// sampleTwice takes two samples, since rates need two, and returns the second.
func (m *model) sampleTwice() (api.PresentJobs, error) {
	for {
		s := sample(m.ctx, m.source, 0, "")
		if s.err != nil {
			return api.PresentJobs{}, s.err
		}
		m.receiveJobs(s.jobs)
		if m.fresh++; m.fresh == 2 {
			return s.jobs, nil
		}
		select {
		case <-time.After(Least):
		case <-m.ctx.Done():
			return api.PresentJobs{}, m.ctx.Err()
		}
	}
}
