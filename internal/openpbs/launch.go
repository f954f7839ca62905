package openpbs

import (
	"errors"
	"strconv"
	"strings"
)

// launch reads what precedes the job, which begins at end. The user controls all of it, and a line
// counts only where it is expected. progname comes first, then argv[0], argv[1] and so on, then env
// up to the end. Everything else belongs to the preceding value.
func (d *decoder) launch(e *Event, lines []line, end int) error {
	var due []line
	next := 0 // the index of the next argument
	for _, l := range lines {
		switch {
		case l.object != "event":
			continue
		case l.name == "progname" && l.resource == "" && len(due) == 0:
		case l.name == "argv" && l.resource == strconv.Itoa(next):
			next++
		case l.name == "env" && l.resource == "" && strings.HasPrefix(d.value(l), quotes):
			due = append(due, l)
			return d.setLaunch(e, due, end)
		default:
			continue
		}
		due = append(due, l)
	}
	return d.setLaunch(e, due, end)
}

const quotes = `"""`

func (d *decoder) setLaunch(e *Event, due []line, end int) error {
	var progname string
	var argv []string
	var env []variable
	for i, l := range due {
		to := end
		if i+1 < len(due) {
			to = due[i+1].start
		}
		value := strings.TrimSuffix(d.text[l.from:to], "\n")
		switch l.name {
		case "progname":
			progname = value
		case "argv":
			argv = append(argv, value)
		case "env":
			inner, ok := strings.CutSuffix(strings.TrimPrefix(value, quotes), quotes)
			if !ok {
				return errors.New("pbs.event().env: does not end with triple quotes")
			}
			env = parseEnv(inner)
		}
	}
	e.setLaunch(progname, argv, env)
	return nil
}

// setLaunch sets what MoM is about to start. MoM's argv includes the program's name; hostapi's does
// not.
func (e *Event) setLaunch(progname string, argv []string, env []variable) {
	e.progname, e.argv, e.env = progname, argv, env
	req := e.Request
	req.Progname = valid(progname)
	for _, arg := range argv[min(1, len(argv)):] {
		req.Argv = append(req.Argv, valid(arg))
	}
	req.Env = make(map[string]string, len(env))
	for _, v := range env {
		name := valid(v.name)
		if _, twice := req.Env[name]; !twice && name != "" { // getenv(3) finds the first
			req.Env[name] = valid(v.value)
		}
	}
}
