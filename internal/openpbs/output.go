package openpbs

import (
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Output returns the text of MoM's output file that carries out c, as pbs_python writes it
// (src/tools/pbs_python.c) and MoM reads it (src/resmom/mom_hook_func.c, get_hook_results). The
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
	o := output{event: e.Request.Event}
	var rejected, decided bool
	var message string
	for _, change := range c.List {
		switch change.Verb {
		case verbLog:
			if change.Fields[0] != "debug" && !strings.HasPrefix(change.Fields[0], setLevel) {
				return nil, false
			}
		case verbAccept, verbReject:
			decided, rejected = true, change.Verb == verbReject
			if rejected {
				message = oneLine(change.Fields[0])
			}
		}
	}
	if !decided {
		return nil, false
	}
	o.verdict(rejected, message)
	may := allowedIn(o.event)
	for _, change := range c.List {
		if change.Verb == verbUsed && !o.used(may, change.Fields) {
			return nil, false
		}
		if change.Verb != verbLog {
			continue
		}
		if name, sets := strings.CutPrefix(change.Fields[0], setLevel); sets {
			o.line("job."+name, change.Fields[1])
		}
	}
	if may.launch && !o.launch(e, c) {
		return nil, false
	}
	for _, verb := range []string{verbRerun, verbDelete} {
		if !c.has(verb) {
			continue
		}
		if !may.action {
			return nil, false
		}
		o.line("job._"+verb, "True")
	}
	return []byte(o.text.String()), true
}

type output struct {
	event hostapi.Event
	text  strings.Builder
}

func (o *output) line(key, value string) {
	o.text.WriteString(eventPrefix + key + "=" + value + "\n")
}

func (o *output) verdict(rejected bool, message string) {
	if !rejected {
		o.line("accept", "True")
		o.line("reject", "False")
		return
	}
	o.line("reject", "True")
	o.line("accept", "False")
	o.line("reject_msg", message)
}

func (o *output) used(may allowed, fields []string) bool {
	job, name, kind, value := fields[0], fields[1], fields[2], fields[3]
	object := "job"
	if job != "" {
		object = `job_list["` + job + `"]`
	}
	if job == "" && !may.used || job != "" && (!may.jobs || hostapi.CheckJobID(job) != nil) || name == "" ||
		nameLength(name) != len(name) {
		return false
	}
	if kind == typeDuration { // to PBS a duration is a long that is written differently
		kind = typeLong
	}
	o.line(object+"."+attrResourcesUsed+"["+name+","+kind+"]", oneLine(value))
	return true
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
