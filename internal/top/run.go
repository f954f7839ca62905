package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(f.Fd()) }

// Run shows jobs on a terminal until the user quits or ctx ends. If the Source fails, Run shows the
// error and tries again. userOf returns the name of a user.
func Run(ctx context.Context, source Source, every time.Duration, userOf func(uid int) string, out *os.File) error {
	m := newModel(ctx, source, max(every, Least), userOf)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out)).Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("show jobs: %w", err)
	}
	return nil
}

// Once writes one frame as text, with all jobs and all columns. It takes two samples, since busy
// cpus are a rate.
func Once(ctx context.Context, source Source, out io.Writer) error {
	m := newModel(ctx, source, Least, nil)
	for range 2 {
		s := sample(ctx, source, 0, "")
		if s.err != nil {
			return s.err
		}
		m.receiveJobs(s.jobs)
		if m.fresh++; m.fresh == 2 {
			break
		}
		select {
		case <-time.After(Least):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	columns := fit(m.jobs.columns, m.jobs.rows, 0)
	lines := []string{m.summary(), "", heading(columns, m.jobs.order)}
	for i := range m.jobs.rows {
		lines = append(lines, line(columns, &m.jobs.rows[i], plain))
	}
	for i, text := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(text), " ")
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}
