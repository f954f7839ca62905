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
	r, err := c.registry(cfg)
	if err != nil {
		return []finding{blocking("hooks", err.Error(), "")}
	}
	hooks, err := r.List()
	if err != nil {
		findings = append(findings, blocking("hooks", err.Error(), "correct or delete the file"))
	}
	for _, h := range hooks {
		f := ok("hook "+h.Name, h.Program)
		if !h.Enabled {
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

// examineDaemon asks the daemon, where there is one, how its hooks do.
func (c *cli) examineDaemon(ctx context.Context) []finding {
	client, err := api.Dial(c.socket)
	if errors.Is(err, api.ErrNoHost) {
		return []finding{degraded("daemon", "does not run ("+filepath.Clean(c.socket)+")", "hookhost serve, or systemctl start hookhost; 'hookhost run' works without")}
	}
	if err != nil {
		return []finding{degraded("daemon", err.Error(), "")}
	}
	defer client.Close()
	info, err := client.Node(ctx)
	if err != nil {
		return []finding{blocking("daemon", err.Error(), "see its log")}
	}
	findings := []finding{ok("daemon", fmt.Sprintf("version %s, pid %d, answers at %s", info.Version, info.PID, c.socket))}
	for _, h := range info.Hooks {
		f := ok("running hook "+h.Name, h.State)
		if h.Error != "" {
			f = blocking(f.What, h.State+": "+h.Error, "see the daemon's log")
		}
		findings = append(findings, f)
	}
	return findings
}
