// Package table reads the table [shim] of a hookhost.toml as hookhost.py does. The shim has no
// parser of TOML: it reads line by line, in a few forms of all that TOML has. internal/config
// refuses a file in which the two would find different values. The package imports nothing that
// takes long to start.
package table

import "strings"

// Socket is where the daemon listens unless the table says otherwise.
const Socket = "/run/hookhost/hookhost.sock"

// Read returns the settings of the table by key, text as it stands between quotes, and true or
// false. A line that has none of the forms is left out, as a line of another table is. The same
// rules are in shim_lines and setting of hookhost.py:
//
//	[shim]                    alone on its line; the table ends before the next line with a [
//	KEY = "TEXT"              or 'TEXT', without a \ in it, and neither true nor false
//	KEY = true                or false
//	# comment                 also behind a value
func Read(text []byte) map[string]string {
	settings, inside := map[string]string{}, false
	for line := range strings.SplitSeq(string(text), "\n") {
		line = trim(line)
		switch {
		case strings.HasPrefix(line, "["):
			inside = line == "[shim]"
		case inside && line != "" && line[0] != '#':
			key, value, _ := strings.Cut(line, "=")
			if value, ok := read(trim(value)); ok {
				settings[trim(key)] = value
			}
		}
	}
	return settings
}

// read returns the value that stands behind the equals sign.
func read(text string) (value string, ok bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		text, _, _ = strings.Cut(text, "#")
		text = trim(text)
		return text, text == "true" || text == "false"
	}
	value, rest, closed := strings.Cut(text[1:], text[:1])
	rest = trim(rest)
	return value, closed && !strings.Contains(value, `\`) && (rest == "" || rest[0] == '#') &&
		value != "true" && value != "false"
}

// trim takes blanks away from both ends: those that are none of TOML's stay.
func trim(text string) string { return strings.Trim(text, " \t\r") }
