package openpbs

import (
	"bytes"
	"slices"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/hostapi"
)

// The verbs. Each is followed by as many fields as verbFields says.
const (
	// LEVEL TEXT: a line for MoM's log; levels error, warning, debug. Level "job ID" makes the line
	// belong to that job, so tracejob finds it. Level "set ATTRIBUTE" is not a log line: it sets
	// the attribute of event.job to TEXT, a number. A shim older than the daemon treats both as
	// debug.
	verbLog      = "log"
	verbUsed     = "used"     // JOB NAME TYPE VALUE: resources_used of event.job (JOB is "") or of a job of job_list
	verbVnode    = "vnode"    // VNODE ATTRIBUTE RESOURCE TYPE VALUE: RESOURCE is "" for an attribute that is not a list
	verbOffline  = "offline"  // VNODE TEXT: offline_by_mom, TEXT added to the comment
	verbOnline   = "online"   // VNODE TEXT: undoes offline of that TEXT
	verbProgname = "progname" // PATH
	verbArgv     = "argv"     // the arguments are in the following arg verbs
	verbArg      = "arg"      // TEXT
	verbSetenv   = "setenv"   // NAME VALUE
	verbUnsetenv = "unsetenv" // NAME
	verbHold     = "hold"     // a system hold
	verbRerun    = "rerun"
	verbDelete   = "delete"
	verbRestart  = "restart" // the scheduler's cycle
	verbAccept   = "accept"
	verbReject   = "reject" // MESSAGE
	verbAsk      = "ask"    // state and comment of the vnodes, then the event again
)

const (
	version = "hookhost/1" // the first field
	verbEnd = "end"        // the last one
)

// Change is one verb with its fields. A field holds no NUL byte.
type Change struct {
	Verb   string
	Fields []string
}

// Changes is what the shim has to do, in this order: log, used, the verbs of vnodes, progname, argv
// and its arg. setenv, unsetenv, hold, rerun or delete, restart, and accept or reject follow.
// Changes of one verb are sorted by name.
type Changes struct {
	List []Change
}

// Ask returns only the verb ask. It makes the shim ask the server for state and comment of the
// host's vnodes, and send the event again.
func Ask() *Changes { return &Changes{List: []Change{{Verb: verbAsk}}} }

// add appends a verb. It drops NUL bytes, which a field cannot hold.
func (c *Changes) add(verb string, fields ...string) {
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "\x00", "")
	}
	c.List = append(c.List, Change{Verb: verb, Fields: fields})
}

const (
	jobLevel = "job " // level prefix of a line about a job
	setLevel = "set " // level prefix for an attribute of event.job
)

// LogJob is Log for a line about a job.
func (c *Changes) LogJob(id, text string) { c.Log(jobLevel+id, text) }

// Log adds a line for MoM's log (level error, warning or debug) after the existing log lines and
// before everything else.
func (c *Changes) Log(level, text string) {
	at := slices.IndexFunc(c.List, func(change Change) bool { return change.Verb != verbLog })
	if at < 0 {
		at = len(c.List)
	}
	c.List = slices.Insert(c.List, at, Change{Verb: verbLog, Fields: []string{level, oneLine(text)}})
}

// has reports whether c contains one of the verbs.
func (c *Changes) has(verbs ...string) bool {
	return slices.ContainsFunc(c.List, func(change Change) bool { return slices.Contains(verbs, change.Verb) })
}

// Fields encodes c for the shim: hookhost/1, then each verb with its fields, then end. A NUL byte
// follows each of them.
func (c *Changes) Fields() []byte {
	var b bytes.Buffer
	field := func(text string) {
		b.WriteString(text)
		b.WriteByte(0)
	}
	field(version)
	for _, change := range c.List {
		field(change.Verb)
		for _, f := range change.Fields {
			field(f)
		}
	}
	field(verbEnd)
	return b.Bytes()
}

// maxLine bounds a line for MoM: its buffer for a reject's message has 3172 bytes
// (src/include/hook.h).
const maxLine = 2048

// oneLine makes text fit for a line of OUT or of a log. A rune that does not print becomes a blank,
// and a byte that is not UTF-8 becomes U+FFFD.
func oneLine(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
	return hostapi.Clip(text, maxLine)
}
