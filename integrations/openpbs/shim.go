// Package openpbs contains the parts of hookhost that PBS runs. The shim is a Python hook that
// passes MoM's events to the node's daemon. A Registration installs it with qmgr. The package makes
// the decisions and the texts. It does not start qmgr or open sockets. Its knowledge of qmgr is
// from OpenPBS's src/cmds/qmgr.c, src/server/hook_func.c and src/lib/Libutil/hook.c. The only
// program on disk that it changes is pbs_python, which StandIn replaces and restores.
//
// The shim is dumb. pbs_python starts again for each event, and each line and import of a hook
// costs time. So the daemon reads MoM's input file, and the shim carries out its answer.
package openpbs

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed hookhost.py
var body string

//go:embed head.py
var head string

// Shim returns the hook's script without the first line, which Script adds: head.py around the text
// of hookhost.py. Its digest covers both, so compiled code of another version of either does not
// run. Callers must not change it.
func Shim() []byte { return shim() }

// shim is built when it is first used, because most commands never use it.
var shim = sync.OnceValue(func() []byte {
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(head+body)))
	return []byte(strings.NewReplacer("@hookhost.py@", body, "@digest@", digest).Replace(head))
})

// mark identifies a script in PBS as ours, regardless of its version. The rest of its line is for
// people, and records what uninstall has to restore. Only the registration itself is available
// wherever qmgr runs.
const (
	mark     = "# hookhost: "
	imported = mark + "imported by 'hookhost openpbs'"
	pending  = ", not enabled yet"
	disabled = ", which disabled "
)

// Script returns the text to import: the shim below a line that identifies it. If disabledHook is
// not "", the line names this hook, which was disabled for the shim.
func Script(disabledHook string) []byte { return script("", disabledHook) }

// script is Script with state, pending or "", after the mark. While the state is pending, Install
// has yet to enable the hook. If the hook is disabled after that, the administrator did it.
func script(state, disabledHook string) []byte {
	line := imported + state
	if disabledHook != "" {
		line += disabled + disabledHook
	}
	return append([]byte(line+"\n"), Shim()...)
}

// Ours reports whether hookhost imported a script, and which hook was disabled for it, if any.
func Ours(script []byte) (disabledHook string, ours bool) {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	text, ours := strings.CutPrefix(string(line), mark)
	_, disabledHook, _ = strings.Cut(text, disabled)
	return strings.TrimSpace(disabledHook), ours
}

// isPending reports whether an unfinished installation imported a script of ours.
func isPending(script []byte) bool {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	return bytes.HasPrefix(line, []byte(mark)) && bytes.Contains(line, []byte(pending))
}
