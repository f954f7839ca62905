// Package table reads the table [shim] of a hookhost.toml as hookhost.py does. The shim has no TOML
// parser: it reads line by line and accepts only a few of TOML's forms. internal/config refuses a
// file from which the two would read different values. The package does not import anything that
// slows down the start of a program.
package table

import "strings"

// Socket is the daemon's socket unless the table names another.
const Socket = "/run/hookhost/hookhost.sock"

// Read returns the settings of the table by key, text as it stands between quotes, and true or
// false. Lines of any other form are ignored, and so are other tables. shim_lines and setting of
// hookhost.py have the same rules:
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

// read returns the value after the equals sign.
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

// trim removes TOML's white space from both ends, and no other.
func trim(text string) string { return strings.Trim(text, " \t\r") }
