package openpbs

import (
	"maps"
	"strings"
)

// unset are the default attributes of a hook (HOOK_*_DEFAULT in hook.h).
var unset = map[string]string{"type": "site", "enabled": "true", "event": "", "user": "pbsadmin", "alarm": "30",
	"freq": "120", "order": "1",
	"debug": "false", "fail_action": "none"}

// ParseControl reads a hook's control file, NAME.HK, as the server sends it to each pbs_mom. It has
// a line ATTRIBUTE=VALUE for each attribute that differs from PBS's default (hook_save in hook.c).
// The result includes the defaults, but neither script nor configuration. Lines of another form are
// ignored.
func ParseControl(name string, text []byte) *Hook {
	h := &Hook{Name: name, Attributes: maps.Clone(unset)}
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && !strings.HasPrefix(key, "#") && key != "hook_name" {
			h.Attributes[key] = value
		}
	}
	return h
}
