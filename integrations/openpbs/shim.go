// Package openpbs is what PBS is given of hookhost. The shim is a Python hook that hands MoM's
// events to the node's daemon. A Registration puts it in place by qmgr. The package decides and
// words; it starts no qmgr and opens no socket. Its knowledge of qmgr is from OpenPBS's
// src/cmds/qmgr.c, src/server/hook_func.c and src/lib/Libutil/hook.c. The one thing on disk that it
// touches is the program pbs_python, which StandIn replaces and puts back.
//
// The shim is dumb. pbs_python starts anew for each event, and each line and import of a hook is
// paid for each time. So the daemon reads MoM's input file, and the shim carries out its answer.
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

// Shim is the hook's script, without the line that Script sets above it: head.py around the text of
// hookhost.py. Its digest is of both, so that code that was compiled from another version of either
// is not run. Callers must not change it.
func Shim() []byte { return shim() }

// shim is put together when it is first asked for, which most commands never do.
var shim = sync.OnceValue(func() []byte {
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(head+body)))
	return []byte(strings.NewReplacer("@hookhost.py@", body, "@digest@", digest).Replace(head))
})

// mark is how a script that PBS has is known to be ours, whatever its version. The rest of its line
// is for people, and for what uninstall has to put back. The registration itself is the one place
// that is there wherever qmgr runs.
const (
	mark     = "# hookhost: "
	imported = mark + "imported by 'hookhost openpbs'"
	pending  = ", not enabled yet"
	disabled = ", which disabled "
)

// Script is what is imported: the shim below a line that says whose it is. The line names the hook
// that was disabled for it, if disabledHook is not "".
func Script(disabledHook string) []byte { return script("", disabledHook) }

// script is Script with state, pending or "", behind the mark. As long as the state is pending,
// Install has yet to enable the hook. A hook that is disabled later is so by the administrator's
// will.
func script(state, disabledHook string) []byte {
	line := imported + state
	if disabledHook != "" {
		line += disabled + disabledHook
	}
	return append([]byte(line+"\n"), Shim()...)
}

// Ours reports whether a script was imported by hookhost, and which hook was disabled for it, if
// any.
func Ours(script []byte) (disabledHook string, ours bool) {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	text, ours := strings.CutPrefix(string(line), mark)
	_, disabledHook, _ = strings.Cut(text, disabled)
	return strings.TrimSpace(disabledHook), ours
}

// isPending reports whether a script of ours was imported by an installation that has not been
// finished.
func isPending(script []byte) bool {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	return bytes.HasPrefix(line, []byte(mark)) && bytes.Contains(line, []byte(pending))
}
