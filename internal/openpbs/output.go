package openpbs

import (
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Output returns the text of MoM's output file that carries out c, as pbs_python writes it
// (src/tools/pbs_python.c) and MoM reads it (src/resmom/mom_hook_func.c, get_hook_results). c is
// from Changes, Failed or Late of e, which leave out what PBS does not let a hook change. The
// result is false if c contains something that only the pbs module can do. These are vnode,
// offline, online, hold, restart, ask, and a log line of level error or warning. The result is also
// false if a program or an argument cannot be written so that MoM reads it.
//
// A launch's program, arguments and environment are written whether c changes them or not, because
// MoM replaces its own with those of OUT. MoM's environment comes back byte for byte, except for a
// value with a backslash before a comma. MoM's reader (strtok_quoted) splits such a value,
// whichever hook writes it.
func (e *Event) Output(c *Changes) ([]byte, bool) {
	if c.has(verbVnode, verbOffline, verbOnline, verbHold, verbRestart, verbAsk) {
		return nil, false
	}
	o := output{}
	o.verdict(c.List[len(c.List)-1])
	for _, change := range c.List {
		switch change.Verb {
		case verbLog:
			if name, sets := strings.CutPrefix(change.Fields[0], setLevel); sets {
				o.line("job."+name, change.Fields[1])
			} else if change.Fields[0] != "debug" {
				return nil, false
			}
		case verbUsed:
			o.used(change.Fields)
		}
	}
	if e.Request.Event == hostapi.EventLaunch && !o.launch(e, c) {
		return nil, false
	}
	for _, verb := range []string{verbRerun, verbDelete} {
		if c.has(verb) {
			o.line("job._"+verb, "True")
		}
	}
	return []byte(o.text.String()), true
}

// output is the text as far as it is written.
type output struct{ text strings.Builder }

func (o *output) line(key, value string) {
	o.text.WriteString(eventPrefix + key + "=" + value + "\n")
}

// verdict writes accept or reject, which is the last of all changes.
func (o *output) verdict(last Change) {
	if last.Verb == verbAccept {
		o.line("accept", "True")
		o.line("reject", "False")
		return
	}
	o.line("reject", "True")
	o.line("accept", "False")
	o.line("reject_msg", last.Fields[0])
}

func (o *output) used(fields []string) {
	job, name, kind, value := fields[0], fields[1], fields[2], fields[3]
	object := "job"
	if job != "" {
		object = `job_list["` + job + `"]`
	}
	if kind == typeDuration { // to PBS a duration is a long that is written differently
		kind = typeLong
	}
	o.line(object+"."+attrResourcesUsed+"["+name+","+kind+"]", value)
}

func (o *output) launch(e *Event, c *Changes) bool {
	progname, argv := e.progname, e.argv
	for _, change := range c.List {
		switch change.Verb {
		case verbProgname:
			progname = change.Fields[0]
		case verbArgv:
			argv = nil
		case verbArg:
			argv = append(argv[:len(argv):len(argv)], change.Fields[0])
		}
	}
	if progname == "" || !o.value("progname", progname) {
		return false
	}
	for i, arg := range argv {
		if !o.value("argv["+strconv.Itoa(i)+"]", arg) {
			return false
		}
	}
	env := formatEnv(changedEnv(e.env, c))
	if endsAtOnce(env) {
		return false
	}
	o.line("env", quotes+env+quotes)
	return true
}

// endsAtOnce reports whether MoM takes the quotes that begin a value for those that end it. That
// happens if its first line contains nothing but quotes.
func endsAtOnce(value string) bool {
	return strings.HasPrefix(strings.TrimLeft(value, `"`), "\n")
}

// value writes any text, in triple quotes if MoM would otherwise lose a part of it.
func (o *output) value(key, value string) bool {
	plain := !strings.Contains(value, "\n") && !strings.HasPrefix(value, quotes) && !strings.HasSuffix(value, quotes) &&
		(value == "" || strings.IndexByte(" \t\v\f\r", value[0]) < 0)
	switch {
	case plain:
		o.line(key, value)
	case endsAtOnce(value) || strings.Contains(value, quotes+"\n"):
		return false
	default:
		o.line(key, quotes+value+quotes)
	}
	return true
}
