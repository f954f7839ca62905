package top

import (
	tea "charm.land/bubbletea/v2"

	"github.com/hookhost/hookhost/hostapi"
)

// longestFilter is the maximum length of a filter, in bytes.
const longestFilter = 40

// key carries out the command of a key.
func (m model) key(key string) (tea.Model, tea.Cmd) {
	switch key {
	case "ctrl+c":
		return m, tea.Quit
	case "ctrl+z":
		return m, tea.Suspend
	}
	if m.help {
		m.help = false
		return m, nil
	}
	switch key {
	case "?", "h":
		m.help = true
	case "q":
		if m.job == "" {
			return m, tea.Quit
		}
		return m.back()
	case "esc":
		return m.escape()
	case "enter":
		return m.open()
	case "/":
		m.typing = m.job == ""
	case "s":
		m.each(func(l *list[jobRow]) { l.sortNext(m.width) }, func(l *list[processRow]) { l.sortNext(m.width) })
	case "r":
		m.each((*list[jobRow]).reverse, (*list[processRow]).reverse)
	default:
		if by, ok := m.steps(key); ok {
			m.each(func(l *list[jobRow]) { l.move(by) }, func(l *list[processRow]) { l.move(by) })
		}
	}
	m.each(func(l *list[jobRow]) { l.scroll(m.room()) }, func(l *list[processRow]) { l.scroll(m.room()) })
	return m, nil
}

// each applies one of the functions to the list that is shown.
func (m *model) each(jobs func(*list[jobRow]), processes func(*list[processRow])) {
	if m.job == "" {
		jobs(&m.jobs)
	} else {
		processes(&m.processes)
	}
}

// steps returns by how many rows a key moves down.
func (m *model) steps(key string) (by int, ok bool) {
	const far = 1 << 20
	by, ok = map[string]int{
		"down": 1, "j": 1, "up": -1, "k": -1, "pgdown": m.room(), "pgup": -m.room(),
		"home": -far, "g": -far, "end": far, "G": far,
	}[key]
	return by, ok
}

// open shows the processes of the selected job.
func (m model) open() (tea.Model, tea.Cmd) {
	if m.job != "" || len(m.jobs.rows) == 0 {
		return m, nil
	}
	m.job, m.processes, m.beforeOf, m.existing = m.jobs.selected, newProcessList(), nil, 0
	return m.again()
}

// back shows the list of jobs.
func (m model) back() (tea.Model, tea.Cmd) {
	m.job = ""
	return m.again()
}

// escape leaves the processes, else the filter, else the program.
func (m model) escape() (tea.Model, tea.Cmd) {
	switch {
	case m.job != "":
		return m.back()
	case m.filter != "":
		m.filter = ""
		m.sift()
		return m, nil
	}
	return m, tea.Quit
}

// typed adds a key to the filter.
func (m model) typed(key tea.KeyPressMsg) model {
	switch key.String() {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, m.filter = false, ""
	case "ctrl+u":
		m.filter = ""
	case "backspace":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	default:
		if text := hostapi.Printable(key.Text); len(m.filter)+len(text) <= longestFilter {
			m.filter += text
		}
	}
	m.sift()
	return m
}
