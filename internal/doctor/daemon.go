package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/plugin"
)

// daemon is what the node's daemon reports about itself.
type daemon struct {
	info  api.NodeInfo // zero if it does not answer
	err   error        // why not
	there bool         // it answers, perhaps only with an error
}

func askDaemon(ctx context.Context, socket string) (d daemon) {
	client, err := api.Dial(socket)
	if err != nil {
		return daemon{err: err}
	}
	defer client.Close()
	d.there = true
	d.info, d.err = client.Node(ctx)
	return d
}

// examine reports whether a daemon runs, whether it has the configuration, and the state of its
// hooks.
func (d daemon) examine(socket string) []Finding {
	const what = "daemon"
	switch {
	case errors.Is(d.err, api.ErrNoHost):
		return []Finding{degraded(what, "does not run ("+filepath.Clean(socket)+")",
			"systemctl start hookhost, or hookhost serve &")}
	case d.err != nil && !d.there:
		return []Finding{degraded(what, d.err.Error(), "")}
	case d.err != nil:
		return []Finding{blocking(what, d.err.Error(), "see its log")}
	}
	findings := []Finding{ok(what,
		fmt.Sprintf("version %s, pid %d, answers at %s", d.info.Version, d.info.PID, socket))}
	findings = append(findings, examineInForce(d.info.Config)...)
	for _, h := range d.info.Hooks {
		f := ok("running hook "+h.Name, h.State)
		if h.Error != "" {
			f = blocking(f.What, h.State+": "+h.Error, "see the daemon's log")
		}
		findings = append(findings, f)
	}
	return findings
}

// examineInForce reports which settings of the configuration are not in force. info is nil without
// a daemon, or if the daemon has another version.
func examineInForce(info *api.ConfigInfo) []Finding {
	if info == nil {
		return nil
	}
	const what = "configuration"
	file := info.File
	waiting := func(settings []api.Setting) string {
		var all []string
		for _, s := range settings {
			all = append(all, fmt.Sprintf("%s (%s in force, %s in the file)", s.Key, s.InForce, s.Waits))
		}
		return strings.Join(all, ", ")
	}
	if info.InForce() {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return []Finding{ok(what, "the daemon uses the defaults, since there is no "+file)}
		}
		return []Finding{ok(what, "the daemon uses "+file)}
	}
	switch {
	case info.Error != "":
		return []Finding{degraded(what, "the daemon still uses what it read before: "+info.Error,
			"correct the file: the daemon does not start with it")}
	case len(info.Restart) > 0:
		found := "the daemon does not use all of " + file + " yet, and a reload is refused: " +
			waiting(info.Restart)
		if len(info.Reload) > 0 {
			found += "; also waiting: " + waiting(info.Reload)
		}
		return []Finding{degraded(what, found,
			"when no job is running: systemctl restart hookhost; or restore the file")}
	}
	return []Finding{degraded(what, "the daemon does not use all of "+file+" yet: "+waiting(info.Reload),
		"systemctl reload hookhost, or SIGHUP to the daemon")}
}

// examineRefused reports how often the daemon has refused calls.
func (d daemon) examineRefused() []Finding {
	var kinds []string
	for kind, n := range d.info.Refused {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	if len(kinds) == 0 {
		return nil
	}
	slices.Sort(kinds)
	return []Finding{ok("refused", "since the daemon started: "+strings.Join(kinds, ", ")+"; its log shows who")}
}

// examineHooks reports whether the programs of the registered hooks can be started.
func (n *Node) examineHooks() []Finding {
	const what = "hooks"
	var findings []Finding
	if !n.Settings.File.Host.Enabled {
		findings = append(findings, ok(what, "[host] is not enabled on this host: hookhost leaves its jobs alone, "+
			"except for hooks of this site"))
	}
	r, err := n.Hooks()
	if err != nil {
		return []Finding{blocking(what, err.Error(), "")}
	}
	hooks, err := r.List()
	if err != nil {
		findings = append(findings, blocking(what, err.Error(),
			"make the directory readable: otherwise the daemon does not start"))
	}
	for _, h := range hooks {
		f := ok("hook "+h.Name, h.Program)
		if h.Fault != "" {
			f = blocking(f.What, "its file cannot be used: "+h.Fault,
				"correct or delete "+filepath.Join(r.Dir, h.Name+".toml")+"; until then no reload takes effect, and "+
					"after a restart of the daemon its events fail")
		} else if !h.Enabled {
			f.Found = "not enabled"
		} else if err := r.CheckProgram(h); err != nil {
			f = blocking(f.What, err.Error(),
				"import it: hookhost hook import "+h.Name+" application/x-executable default FILE")
			if h.BuiltIn {
				f.Advice = "install hookhost again: the program is part of it"
			}
		} else if on := h.With(plugin.BlameNothing); len(on) > 0 && (h.Name == "cgroup" || h.Name == "devices") {
			f = degraded(f.What, strings.Join(on, ", ")+": nothing: after such an error jobs run unconfined",
				"hookhost hook set "+h.Name+" "+strings.Join(on, "=job ")+"=job")
		}
		findings = append(findings, f)
	}
	return findings
}
