package openpbs

import "strings"

// line is one statement in an input file: OBJECT.NAME[RESOURCE]=VALUE.
type line struct {
	object   string // "event", "job", "job_list", "vnode_list", "vnode_list_fail", "node" (the host's name)
	of       string // the job or the vnode of a list
	name     string
	resource string
	start    int // where the line begins in the text
	from, to int // its value there; a value may hold newlines
}

// String returns the text before the line's value, without the name of a job or a vnode.
func (l line) String() string {
	text := eventPrefix
	switch l.object {
	case "node":
		return strings.TrimSuffix(nodePrefix, "=")
	case "event":
	default:
		text += l.object + "."
	}
	return text + attribute{l.name, l.resource}.String()
}

const (
	eventPrefix = "pbs.event()."
	nodePrefix  = "pbs.get_local_nodename()="
)

// scan splits an input file. It returns nil if text does not begin with a line.
//
// MoM writes values unchanged, including newlines. Only env and, in events of a job, Variable_List
// are in triple quotes, which a value may contain itself. So a line that does not have the form of
// MoM's lines belongs to the preceding value. A line with that form always counts as a line, quotes
// or not. So everything that MoM wrote is among the lines. A line that a user smuggled in appears
// as a second line with the same key, or in a place where MoM has none.
func scan(text string) []line {
	var lines []line
	for at := 0; at < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		if l, from, ok := parseKey(text[at:end]); ok {
			l.start, l.from, l.to = at, at+from, end
			lines = append(lines, l)
		} else if len(lines) == 0 {
			return nil
		} else {
			lines[len(lines)-1].to = end
		}
		at = end + 1
	}
	return lines
}

// parseKey reads the part of a line before its value and returns where the value begins.
func parseKey(text string) (l line, from int, ok bool) {
	if strings.HasPrefix(text, nodePrefix) {
		return line{object: "node"}, len(nodePrefix), true
	}
	rest, ok := strings.CutPrefix(text, eventPrefix)
	if !ok {
		return line{}, 0, false
	}
	l.object = "event"
	for _, list := range []string{"job_list", "vnode_list", "vnode_list_fail"} {
		quoted, ok := strings.CutPrefix(rest, list+`["`)
		if !ok {
			continue
		}
		i := strings.Index(quoted, `"].`)
		if i < 0 || strings.IndexByte(quoted[:i], '"') >= 0 {
			return line{}, 0, false
		}
		l.object, l.of, rest = list, quoted[:i], quoted[i+len(`"].`):]
		break
	}
	if attribute, ok := strings.CutPrefix(rest, "job."); ok && l.object == "event" {
		l.object, rest = "job", attribute
	}
	n := nameLength(rest)
	if n == 0 {
		return line{}, 0, false
	}
	l.name, rest = rest[:n], rest[n:]
	if bracket, ok := strings.CutPrefix(rest, "["); ok {
		n := nameLength(bracket)
		if n == 0 || !strings.HasPrefix(bracket[n:], "]") {
			return line{}, 0, false
		}
		l.resource, rest = bracket[:n], bracket[n+1:]
	}
	if !strings.HasPrefix(rest, "=") {
		return line{}, 0, false
	}
	return l, len(text) - len(rest) + 1, true
}

// nameLength returns how many bytes of text can belong to the name of an attribute or a resource,
// or to an index.
func nameLength(text string) int {
	for i, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return i
		}
	}
	return len(text)
}
