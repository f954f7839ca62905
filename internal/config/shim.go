package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hookhost/hookhost/integrations/openpbs/table"
)

// Shim configures the hook that pbs_mom runs, integrations/openpbs/hookhost.py, for the time when
// no daemon answers. The hook reads only the configuration that PBS has sent to the node.
type Shim struct {
	Socket     string   `toml:"socket" json:"socket"`
	Wait       Duration `toml:"wait" json:"wait"`
	Offline    bool     `toml:"offline" json:"offline"`
	Unconfined bool     `toml:"unconfined" json:"unconfined"`
}

var (
	shimWait = regexp.MustCompile(`^[0-5]?[0-9]s$`)
	// A socket's path has at most 107 bytes: unix(7).
	shimSocket = regexp.MustCompile(`^/[!-~]{0,106}$`)
)

// checkShim returns an error for the first setting of [shim] that hookhost.py would misread.
// Package table reads the text as hookhost.py does.
func checkShim(b []byte) (err error) {
	read, there := table.Read(b), 0
	walk(b, func(key []string, line int, value *unstable.Node) {
		if err != nil || len(key) == 0 || !strings.EqualFold(key[0], "shim") {
			return
		}
		there++
		bad := func(want string) {
			err = fmt.Errorf("line %d: %s = %s: want %s", line, strings.Join(key, "."), quoted(value), want)
		}
		name := strings.Join(key[1:], ".")
		switch got, ok := read[name]; {
		case !isShimKey(name):
			err = fmt.Errorf("line %d: unknown key %q", line, strings.Join(key, "."))
		case isBoolean(reflect.TypeFor[File](), key) && value.Kind != unstable.Bool:
			bad("true or false: the shim knows no conditions")
		case !ok || got != string(value.Data):
			bad("a line KEY = \"VALUE\" or KEY = true below a line [shim], as the shim reads no other TOML")
		case name == "socket" && !shimSocket.MatchString(got):
			bad("an absolute path of at most 107 bytes, without blanks")
		case name == "wait" && !shimWait.MatchString(got):
			bad(`whole seconds, at most "59s"`)
		}
	})
	if err == nil && there != len(read) {
		return fmt.Errorf("a text of several lines looks like the table [shim]: "+
			"settings that the shim would read there: %d", len(read)-there)
	}
	return err
}

// isShimKey reports whether name is a key of [shim]. Unlike keys of other tables, it has only one
// spelling.
func isShimKey(name string) bool {
	for field := range reflect.TypeFor[Shim]().Fields() {
		if field.Tag.Get("toml") == name {
			return true
		}
	}
	return false
}

// quoted formats a value for an error.
func quoted(value *unstable.Node) string {
	if value.Kind == unstable.String {
		return fmt.Sprintf("%q", value.Data)
	}
	return string(value.Data)
}
