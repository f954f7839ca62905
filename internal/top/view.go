package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/hookhost/hookhost/hostapi"
)

// The styles use the 16 colours that every terminal has.
var (
	bold  = ansi.Style{}.Bold().Styled
	faint = ansi.Style{}.Faint().Styled
	turn  = ansi.Style{}.Reverse(true).Styled
	red   = ansi.Style{}.Bold().ForegroundColor(ansi.Red).Styled
	plain = func(text string) string { return text }
)

// linesAround are the lines above and below a table: two of text, the heading, the keys.
const linesAround = 4

// room returns the number of rows that a table shows.
func (m *model) room() int { return max(m.height-linesAround, 1) }

// View draws the terminal.
func (m model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "hookhost top"
	return v
}

// lines returns the lines of the terminal, cut to its width.
func (m *model) lines() []string {
	if m.help {
		return m.helpLines()
	}
	lines := []string{bold(m.cut(m.summary())), m.status()}
	keys := "up/down select  enter processes  s sort  r reverse  / filter  ? help  q quit"
	if m.job == "" {
		lines = append(lines, draw(&m.jobs, m.width, m.room(), m.arrows)...)
	} else {
		keys = "up/down select  s sort  r reverse  ? help  q/esc back to the jobs"
		lines = append(lines, draw(&m.processes, m.width, m.room(), m.arrows)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(m.height-1, 1)], faint(m.cut(keys)))
}

func (m *model) cut(text string) string { return ansi.Truncate(text, m.width, "~") }

// draw returns the heading of a list and the rows that fit.
func draw[T any](l *list[T], width, room int, a arrows) []string {
	columns := fit(l.columns, l.rows, width)
	lines := []string{turn(pad(heading(columns, l.order, a), width, false))}
	from, to := l.page(room)
	for i := from; i < to; i++ {
		if i == l.at {
			lines = append(lines, turn(pad(line(columns, &l.rows[i], plain), width, false)))
			continue
		}
		lines = append(lines, ansi.Truncate(line(columns, &l.rows[i], red), width, ""))
	}
	return lines
}

// summary describes the total usage of the node's jobs. Users other than root see only their own
// jobs.
func (m *model) summary() string {
	if m.node == "" {
		return "hookhost top"
	}
	var busy, known float64
	var mem int64
	for i := range m.all {
		r := &m.all[i]
		if r.busy != nil {
			busy += *r.busy
			known++
		}
		if r.uses.MemBytes != nil {
			mem += *r.uses.MemBytes
		}
	}
	text := hostapi.Printable(m.node) + "  " + counted(len(m.all), "job", "jobs")
	if known > 0 {
		text += fmt.Sprintf("  %s of %s busy", cores(&busy), counted(m.capacity.CPUs, "cpu", "cpus"))
	}
	text += "  memory " + size(&mem) + " of " + size(&m.capacity.MemBytes)
	if m.capacity.MemAvailable > 0 {
		text += ", " + size(&m.capacity.MemAvailable) + " free"
	}
	return text
}

// status returns the status line. An error comes first.
func (m *model) status() string {
	switch {
	case m.err != nil && m.node == "":
		return red(m.cut("no answer yet: " + hostapi.Printable(m.err.Error())))
	case m.err != nil:
		return red(m.cut("not reachable, figures are old: " + hostapi.Printable(m.err.Error())))
	case m.typing:
		return m.cut("filter by job, user, name: " + m.filter + "_")
	case m.node == "":
		return m.cut("waiting for the daemon")
	case m.job != "":
		return m.cut(m.processStatus())
	case m.message != "":
		return m.cut(m.message)
	case m.filter != "":
		return m.cut(fmt.Sprintf("filter %q: %d of %s", m.filter, len(m.jobs.rows), counted(len(m.all), "job", "jobs")))
	case len(m.all) == 0:
		return "no jobs"
	}
	return ""
}

func (m *model) processStatus() string {
	text := "job " + m.job
	if r := m.owner(); r != nil {
		text += fmt.Sprintf(" of %s: cpu %s, memory %s", r.user, r.cpuText(), r.memText())
	}
	text += ", " + counted(m.existing, "process", "processes")
	if n := len(m.processes.rows); n < m.existing {
		text += fmt.Sprintf(", %d shown", n)
	}
	return text
}

const helpText = `JOB    id, or its number; NAME; USER its owner; HOSTS how many hosts it has
S      state: P before its start, R running, S suspended, E exiting
RUNS   how long it has run, suspensions not counted; LEFT until its time is over
CPU    cpus busy now, of those it has; CPU% the same as a percentage
MEM    memory now, of its limit, without page cache; MEM% the same, OF as a bar
CACHE  page cache of files
READ   bytes read from disks in a second; WRITE bytes written
PIDS   processes and threads
GPU    how many it has, and how busy they were since it got them
OOM    processes that the kernel killed for lack of memory
-      not known, or no limit; red: memory above 90 % of its limit, or OOM kills

up, down, j, k, pgup, pgdn, home, end   select a job
enter    its processes                  q, esc   back, quit
s        sort by the next column        r        reverse
/        only jobs with a text in job, user or name; esc shows all

any key goes back`

func (m *model) helpLines() []string {
	lines := []string{bold(m.cut("hookhost top"))}
	for text := range strings.Lines(helpText) {
		lines = append(lines, m.cut(strings.TrimSuffix(text, "\n")))
	}
	return lines[:min(len(lines), m.height)]
}
