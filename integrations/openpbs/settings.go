package openpbs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Events are those of a hook of hookhost's, in the order in which PBS lists them (hook_event_as_string in hook.c): all that MoM has.
var Events = []string{
	"execjob_begin", "execjob_prologue", "execjob_epilogue", "execjob_end", "execjob_preterm", "execjob_launch", "exechost_periodic",
	"exechost_startup", "execjob_attach", "execjob_resize", "execjob_abort", "execjob_postsuspend", "execjob_preresume",
}

// Settings are the shim's own, by key; those that are not there have the shim's defaults. They are imported as the hook's
// configuration, a line `KEY = VALUE` each, and reach the nodes with the hook.
type Settings map[string]string

// ParseSettings reads a configuration that was imported. Comments and empty lines do not count.
func ParseSettings(text []byte) Settings {
	s := Settings{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, found := strings.Cut(line, "=")
		if found && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			s[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return s
}

// Set takes KEY=VALUE. It fails for a key that the shim does not know and for a value that it could not mean.
func (s Settings) Set(assignment string) error {
	key, value, found := strings.Cut(assignment, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !found {
		return fmt.Errorf("setting %q: want KEY=VALUE", assignment)
	}
	ok, want := true, ""
	switch {
	case key == "socket":
		ok, want = strings.HasPrefix(value, "/") && len(value) < 108 && !strings.ContainsAny(value, "\n\r\x00"), "an absolute path of at most 107 bytes"
	case key == "wait":
		ok, want = isNumber(value) && !(len(value) > 1 && value > "60"), "a whole number of seconds, at most 60"
	case key == "offline":
		ok, want = value == "yes" || value == "no", "yes or no"
	case slices.Contains(Events, key):
		ok, want = value == "accept" || value == "reject", "accept or reject"
	default:
		return fmt.Errorf("setting %q: no such key: want socket, wait, offline or an event", key)
	}
	if !ok {
		return fmt.Errorf("setting %s=%q: want %s", key, value, want)
	}
	s[key] = value
	return nil
}

// isNumber wants one or two digits.
func isNumber(text string) bool {
	return text != "" && len(text) < 3 && strings.Trim(text, "0123456789") == ""
}

// Text is what is imported: sorted, so that equal settings are equal text.
func (s Settings) Text() []byte {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s = %s\n", key, s[key])
	}
	return []byte(b.String())
}
