package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

func (c *cli) examineHooks(cfg *config.File) []finding {
	var findings []finding
	if !cfg.Host.Enabled {
		findings = append(findings, ok("hooks", "[host] is not enabled on this host: its jobs are left alone, unless a hook of this site does something to them"))
	}
	r, err := c.registry(cfg, true)
	if err != nil {
		return []finding{blocking("hooks", err.Error(), "")}
	}
	hooks, err := r.List()
	if err != nil {
		findings = append(findings, blocking("hooks", err.Error(), "make the folder readable: without it the daemon does not start"))
	}
	for _, h := range hooks {
		f := ok("hook "+h.Name, h.Program)
		if h.Fault != "" {
			f = blocking(f.What, "its file cannot be used: "+h.Fault, "correct or delete "+filepath.Join(r.Dir, h.Name+".toml")+"; until then its events fail")
		} else if !h.Enabled {
			f.Found = "not enabled"
		} else if err := r.CheckProgram(h); err != nil {
			f = blocking(f.What, err.Error(), "import it: hookhost hook import "+h.Name+" application/x-executable default FILE")
			if h.BuiltIn {
				f.Advice = "install hookhost again: the program is part of it"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// nodeDaemon is what the node's daemon says of itself.
type nodeDaemon struct {
	info  api.NodeInfo // zero where it says nothing
	err   error        // why not
	there bool         // it answers, if only with an error
}

func (c *cli) askDaemon(ctx context.Context) (d nodeDaemon) {
	client, err := api.Dial(c.socket)
	if err != nil {
		return nodeDaemon{err: err}
	}
	defer client.Close()
	d.there = true
	d.info, d.err = client.Node(ctx)
	return d
}

// examineDaemon tells whether there is a daemon, and how its hooks do.
func (c *cli) examineDaemon(d nodeDaemon) []finding {
	switch {
	case errors.Is(d.err, api.ErrNoHost):
		return []finding{degraded("daemon", "does not run ("+filepath.Clean(c.socket)+")", "hookhost serve, or systemctl start hookhost; 'hookhost run' works without")}
	case d.err != nil && !d.there:
		return []finding{degraded("daemon", d.err.Error(), "")}
	case d.err != nil:
		return []finding{blocking("daemon", d.err.Error(), "see its log")}
	}
	info := d.info
	findings := []finding{ok("daemon", fmt.Sprintf("version %s, pid %d, answers at %s", info.Version, info.PID, c.socket))}
	findings = append(findings, examineInForce(info.Config)...)
	for _, h := range info.Hooks {
		f := ok("running hook "+h.Name, h.State)
		if h.Error != "" {
			f = blocking(f.What, h.State+": "+h.Error, "see the daemon's log")
		}
		findings = append(findings, f)
	}
	return findings
}
