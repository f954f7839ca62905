package openpbs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NextSteps lists the manual steps that remain once the hook is registered. MoM runs
// exechost_startup only when it starts and on SIGHUP, which does not affect jobs (process_hup in
// resmom/linux/mom_func.c). The daemon reports the missing resources with exechost_periodic, which
// MoM runs when the hook arrives.
const NextSteps = `On nodes whose daemon is already running, an enabled hook works at once (check with hookhost doctor).
A daemon that starts later reports its vnodes to the server at the next exechost_periodic. To report
them at once, send pbs_mom a SIGHUP, which does not affect any job:
    . /etc/pbs.conf; kill -HUP "$(cat "${PBS_MOM_HOME:-$PBS_HOME}/mom_priv/mom.lock")"
The comment of a held job gives the reason only if the scheduler waits for each execjob_begin, which
takes 0.1 s per job. To make it wait:
    qmgr -c 'set sched default job_run_wait = execjob_hook'
If a hook of this site handles execjob_prologue, install once with --event execjob_prologue.
Otherwise PBS does not send that event.
`

// EnableStep is the step before NextSteps if the hook of that name is disabled.
const EnableStep = "Hook %[1]s is disabled and stays disabled. " +
	"To enable it: qmgr -c 'set hook %[1]s enabled = true'"

// Print is Install as a shell script that needs only qmgr, for a server's host without hookhost,
// and for people to read. version is hookhost's. It fails for a hook that replaces pbs_cgroups:
// Uninstall, which makes it PBS's again, needs hookhost there.
func (r Registration) Print(version string) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if r.Name == Stock {
		return nil, fmt.Errorf("hook %s replaces PBS's, which a script cannot undo: install hookhost on the "+
			"PBS server's host, and run hookhost openpbs install --name %[1]s there", Stock)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, scriptHead, version, r.Name)
	marks := func(state, note string) string {
		script := script(state, note)
		return oneLine(strings.TrimSpace(string(encode(script[:len(script)-len(Shim())]))))
	}
	fmt.Fprintf(&b, scriptLook, r.Name, mark, pending, disabled+Stock, marks("", ""), marks(pending, ""),
		marks("", Stock), marks(pending, Stock), fmt.Sprintf(foreign, r.Name))
	switch {
	case r.Disabled:
		b.WriteString(scriptBeside)
	case r.DisableStock:
		b.WriteString(scriptConsent)
	default:
		fmt.Fprintf(&b, scriptNoConsent, ErrStock)
	}
	b.WriteString(scriptResources)
	create := r.resources()
	for _, name := range slices.Sorted(maps.Keys(create)) {
		fmt.Fprintf(&b, scriptResource, name, create[name])
	}
	fmt.Fprintf(&b, scriptCreate, r.Name)
	var named, whole strings.Builder
	for _, a := range r.attributes() {
		if strings.Contains(a[1], ",") {
			a[1] = `"` + a[1] + `"`
		}
		line := fmt.Sprintf("set hook %s %s = %s\n", r.Name, a[0], a[1])
		whole.WriteString(line)
		if !r.preserves(a[0], a[1]) {
			named.WriteString(line)
		}
	}
	enabling := "set hook " + r.Name + " enabled = true\n"
	if r.Disabled {
		enabling = ""
	}
	fmt.Fprintf(&b, scriptAttributes, named.String(), whole.String(), r.Name, typeScript,
		strings.TrimSpace(string(encode(Shim()))), enabling)
	for _, e := range Events() {
		if !slices.Contains(r.Events(), e) {
			fmt.Fprintf(&b, scriptKeepEvent, e)
		}
	}
	fmt.Fprintf(&b, scriptRegister, r.Name, typeScript, NextSteps, map[bool]string{false: "$enable"}[r.Disabled],
		fmt.Sprintf(EnableStep, r.Name))
	if r.Cgswap { // this alone also updates an existing hook
		b.WriteString(r.printCgswap())
	}
	b.WriteString(")\n")
	return b.Bytes(), nil
}

// oneLine joins lines of base64, of which only the last may have padding.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "") }

const scriptHead = `#!/bin/sh
# Registers hookhost %s with OpenPBS, as hook "%s". Nothing in this script needs to be edited. Run it
# as root on the host of the PBS server:
#
#     hookhost openpbs print | ssh root@SERVER sh
#
# You can also copy it there, or paste it into a shell. It can be run again, and then updates what
# differs. A hook of that name that is not hookhost's is left alone. A new hook is enabled last. An
# installed hook stays enabled or disabled. It keeps its events, and its order, alarm, freq and
# fail_action unless an option set them.
` + scriptQmgr

// scriptQmgr finds qmgr and lists the existing hooks.
const scriptQmgr = `(
set +eu
conf=${PBS_CONF_FILE:-/etc/pbs.conf}
[ ! -r "$conf" ] || . "$conf"
set -eu
fail() {
	echo "hookhost: $*" >&2
	exit 1
}
PATH=$PATH:${PBS_EXEC:-/opt/pbs}/bin
[ "$(id -u)" = 0 ] || fail "only root may register hooks: run this as root on the host of the PBS server"
command -v qmgr >/dev/null || fail "no qmgr in PATH and ${PBS_EXEC:-/opt/pbs}/bin: run this on the host of the PBS server"
hooks=$(qmgr -c 'list hook') || fail "qmgr cannot list the hooks: is the server up, and is this its host?"
there() { printf '%%s\n' "$hooks" | grep -qx "Hook $1"; }
`

const scriptLook = `
# look HOOK: its events, whether it is enabled, and the first line of its script, which shows whether
# it is hookhost's. "none" means that there is no script.
look() {
	text=$(qmgr -c "print hook $1") || fail "qmgr cannot print hook $1"
	line=none
	if [ -n "$(printf '%%s\n' "$text" | sed -n '/^import hook .* application\/x-python /{n;p;}')" ]; then # it has a script
		line=$(qmgr -c "export hook $1 application/x-python default" | sed -n 1p)
	fi
	events=$(printf '%%s\n' "$text" | sed -n 's/^set hook [^ ]* event .*= //p')
	enabled=
	case $text in *"set hook $1 enabled = true"*) enabled=yes ;; esac
}
for hook in $(printf '%%s\n' "$hooks" | sed -n 's/^Hook //p'); do
	[ "$hook" != %[1]s ] || continue
	look "$hook"
	case $enabled$line in
	yes'%[2]s'*) fail "hook $hook is already hookhost's and enabled: with %[1]s too, each event would come twice (--name)" ;;
	esac
done

# The first line also shows whether pbs_cgroups was disabled for it, and whether an installation was
# interrupted.
mark=%[5]s
half=%[6]s
noted() {
	mark=%[7]s
	half=%[8]s
}
installed= enabled= line=none
if there %[1]s; then
	look %[1]s
	case $line in
	none) ;;
	'%[2]s'*'%[4]s') noted ;;
	'%[2]s'*) ;;
	*) fail "%[9]s" ;;
	esac
	case $events$line in *exec*'%[2]s'*) installed=yes ;; esac
	case $line in *'%[3]s'*) installed= ;; esac
fi
enable=
[ -n "$installed" ] || enable=yes

stock=
if there pbs_cgroups; then
	text=$(qmgr -c 'list hook pbs_cgroups enabled') || fail "qmgr cannot list hook pbs_cgroups"
	case $text in
	*'enabled = true'*)
`

const scriptConsent = `		stock='set hook pbs_cgroups enabled = false'
		noted
		[ -n "$enabled" ] || enable=yes ;;
	esac
fi
`

const scriptBeside = `		;;
	esac
fi
`

const scriptNoConsent = `		fail "%s" ;;
	esac
fi
`

const scriptResources = `
resources=$(qmgr -c 'list resource') || fail "qmgr cannot list the resources"
`

const scriptResource = `printf '%%s\n' "$resources" | grep -qx 'Resource %[1]s' || qmgr -c '%[2]s'
`

const scriptCreate = `there %[1]s || qmgr -c 'create hook %[1]s'
off=
[ -z "$enable" ] || off='set hook %[1]s enabled = false'
`

const scriptAttributes = `
attributes='%[1]s'
[ -n "$installed" ] || attributes='%[2]s'
script='%[5]s'
first=$mark
finish=
if [ -n "$enable" ]; then
	first=$half
	finish="%[6]simport hook %[3]s %[4]s base64 -
$mark
$script

"
fi
`

const scriptRegister = `
qmgr -a >/dev/null <<END
import hook %[1]s %[2]s base64 -
$first
$script

$off
$attributes
$stock
$finish
END

echo "Hook %[1]s is registered."
[ -n "%[4]s$enabled" ] || echo "%[5]s"
cat <<'END'
%[3]sEND
`

const scriptKeepEvent = `case $installed${events-} in
yes*%[1]s*) attributes=$(printf '%%s\n' "$attributes" | sed '/ event = /s/"$/,%[1]s"/') ;;
esac
`
