package openpbs

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
)

// cgswapScript is the server's hook that fills in cgswap. It does not need hookhost on any node.
//
//go:embed cgswap.py
var cgswapScript string

// cgswapMark is the first line of the imported script. It differs from the shim's, because the
// server may have only one shim.
const cgswapMark = "# hookhost cgswap: imported by hookhost openpbs"

// cgswapText returns the text to import.
func cgswapText() []byte { return []byte(cgswapMark + "\n" + cgswapScript) }

func isCgswap(script []byte) bool { return bytes.HasPrefix(script, []byte(cgswapMark)) }

// WantsCgswap reports whether the hook CgswapName should be registered or updated. existing is that
// hook, or nil.
func (r Registration) WantsCgswap(existing *Hook) bool {
	return r.Cgswap || existing != nil && isCgswap(existing.Script)
}

// The resource that the hook fills in, with the flags that the stock hook needs: host level and
// consumable.
const (
	cgswapResource = "cgswap"
	cgswapType     = "size"
	cgswapFlag     = "nh"
)

// cgswapEvents are the server's events that change a job's request.
const cgswapEvents = "queuejob,modifyjob"

// CgswapName returns the name of that hook.
func (r Registration) CgswapName() string { return r.Name + "_cgswap" }

// InstallCgswap returns the directives that make the server fill in cgswap, or none if it already
// does. existing is the hook CgswapName, and resource is the server's cgswap. Either is nil if it
// does not exist. An existing hook stays enabled or disabled. A hook or resource that hookhost did
// not create is an error.
func (r Registration) InstallCgswap(existing *Hook, resource *Resource) ([]Command, error) {
	name := r.CgswapName()
	if existing != nil && !existing.blank() && !isCgswap(existing.Script) {
		return nil, fmt.Errorf("hook %s exists already and is not hookhost's: choose another --name, "+
			"or delete it: qmgr -c 'delete hook %[1]s'", name)
	}
	var list []Command
	do := func(format string, args ...any) {
		list = append(list, Command{Directive: fmt.Sprintf(format, args...)})
	}
	switch {
	case resource == nil:
		do("create resource %s type=%s,flag=%s", cgswapResource, cgswapType, cgswapFlag)
	case resource.Type != cgswapType || !strings.Contains(resource.Flag, "n") || !strings.Contains(resource.Flag, "h"):
		return nil, fmt.Errorf("resource %s has type %s and flag %q: want type %s and flag %s",
			cgswapResource, resource.Type, resource.Flag, cgswapType, cgswapFlag)
	}
	whole := existing != nil && !existing.blank() && sameList(existing.Attributes["event"], cgswapEvents)
	if existing == nil {
		do("create hook %s", name)
	}
	if !whole {
		do("set hook %s enabled = false", name)
	}
	if existing == nil || string(existing.Script) != string(cgswapText()) {
		do("import hook %s %s base64 -", name, typeScript)
		list[len(list)-1].Input = encode(cgswapText())
	}
	if !whole {
		do("set hook %s event = %q", name, cgswapEvents)
		do("set hook %s enabled = true", name)
	}
	return list, nil
}

// UninstallCgswap returns the directives that delete that hook, or none if it does not exist or
// hookhost did not create it. The resource stays, because jobs and perhaps nodes have values of it.
func (r Registration) UninstallCgswap(existing *Hook) []Command {
	if existing == nil || !isCgswap(existing.Script) {
		return nil
	}
	return []Command{{Directive: "delete hook " + r.CgswapName()}}
}

// CgswapNextSteps lists the remaining manual steps.
const CgswapNextSteps = `From now on, cgswap is filled in if a job requests two of mem, vmem and cgswap.
Set manage_cgswap = true in [memsw] on the nodes, so that they report how much each has. Then add
cgswap to the line "resources" of sched_priv/sched_config, and send pbs_sched a SIGHUP.
`

// printCgswap is the part of Print that corresponds to InstallCgswap.
func (r Registration) printCgswap() string {
	return fmt.Sprintf(scriptCgswap, r.CgswapName(), cgswapMark, typeScript, encode(cgswapText()), cgswapEvents,
		cgswapResource, cgswapType, cgswapFlag, CgswapNextSteps)
}

const scriptCgswap = `
# The server's hook, which fills in cgswap.
if there %[1]s; then
	look %[1]s
	case $line in none | '%[2]s') ;; *) fail "hook %[1]s exists already and is not hookhost's" ;; esac
fi
resource=$(qmgr -c 'list resource %[6]s' 2>/dev/null) || {
	qmgr -c 'create resource %[6]s type=%[7]s,flag=%[8]s'
	resource='type = %[7]s flag = %[8]s'
}
case $resource in
*'type = %[7]s'*'flag = '*n*h* | *'type = %[7]s'*'flag = '*h*n*) ;;
*) fail "resource %[6]s is not of type %[7]s with flag %[8]s: $resource" ;;
esac
whole=
if ! there %[1]s; then
	qmgr -c 'create hook %[1]s'
elif [ "$line" != none ] && [ -n "$events" ]; then
	whole=yes
fi
[ -n "$whole" ] || qmgr -c 'set hook %[1]s enabled = false'
qmgr -a >/dev/null <<'END'
import hook %[1]s %[3]s base64 -
%[4]s
END
if [ -z "$whole" ]; then
	qmgr -c 'set hook %[1]s event = "%[5]s"'
	qmgr -c 'set hook %[1]s enabled = true'
fi
cat <<'END'
%[9]sEND
`
