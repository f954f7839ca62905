package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// examineOpenPBS looks at what pbs_mom of this host has: the hook, as the server sent it to mom_priv/hooks, and pbs_python. Where there is
// no pbs_mom, or nobody but root may look, it says nothing.
func (c *cli) examineOpenPBS(cfg *config.File) []finding {
	home, err := momHome(&cfg.OpenPBS)
	if err != nil {
		return nil
	}
	dir := filepath.Join(home, "mom_priv", "hooks")
	scripts, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	findings := []finding{c.examineShim(dir, scripts)}
	if enabled(filepath.Join(dir, openpbs.Stock)) && findings[0].Status != statusImpossible {
		findings = append(findings, degraded("PBS hook "+openpbs.Stock, "is enabled beside hookhost's: both confine each job, in cgroups of the same name",
			"on the PBS server's host: qmgr -c 'set hook "+openpbs.Stock+" enabled = false'"))
	}
	text, err := os.ReadFile(cfg.OpenPBS.Conf)
	if err != nil {
		return findings
	}
	return append(findings, examinePython(filepath.Join(pbsExec(pbs.Conf(string(text))), "bin"))...)
}

// examineShim finds our hook among those of MoM's, by its script: its name is the administrator's.
func (c *cli) examineShim(dir string, files []fs.DirEntry) finding {
	for _, f := range files {
		name, isScript := strings.CutSuffix(f.Name(), ".PY")
		if !isScript {
			continue
		}
		path := filepath.Join(dir, f.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if _, ours := openpbs.Ours(text); !ours {
			continue
		}
		what := "PBS hook " + name
		if !enabled(filepath.Join(dir, name)) {
			return impossible(what, "is not enabled: pbs_mom does not call hookhost", "on the PBS server's host: qmgr -c 'set hook "+name+" enabled = true'")
		}
		if !bytes.HasSuffix(text, append([]byte("\n"), openpbs.Shim...)) {
			return degraded(what, path+" is of another version of hookhost", "on the PBS server's host: hookhost openpbs install, or what 'hookhost openpbs print' prints")
		}
		settings, err := os.ReadFile(filepath.Join(dir, name+".CF"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return degraded(what, err.Error(), "")
		}
		socket := openpbs.ParseSettings(settings)["socket"]
		if socket == "" {
			socket = defaultSocket
		}
		if socket != c.socket {
			return degraded(what, fmt.Sprintf("calls %s; the daemon's socket is %s", socket, c.socket), "hookhost openpbs install --set socket="+c.socket+", on the PBS server's host")
		}
		return ok(what, fmt.Sprintf("%s, calls %s", path, socket))
	}
	return impossible("PBS hook", "none of hookhost's in "+dir+": pbs_mom does not call hookhost", "on the PBS server's host: hookhost openpbs install, or what 'hookhost openpbs print' prints")
}

// enabled reads a hook's control file, which holds what differs from the defaults (hook_save in hook.c). A hook that is not there is
// not enabled.
func enabled(path string) bool {
	text, err := os.ReadFile(path + ".HK")
	return err == nil && !strings.Contains("\n"+string(text), "\nenabled=false")
}

// examinePython tells who answers for hooks' events: says nothing of PBS's own, which is what there is everywhere.
func examinePython(dir string) []finding {
	program, err := findBeside(standInProgram)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(program); err != nil {
		program = ""
	}
	place, err := openpbs.StandIn{Dir: dir}.Look(program)
	const what = "pbs_python"
	switch {
	case err != nil:
		return []finding{degraded(what, err.Error(), "")}
	case place.State == openpbs.StateStandIn && place.Outdated:
		return []finding{degraded(what, "the stand-in of another version of hookhost, in "+dir, "hookhost openpbs install --native")}
	case place.State == openpbs.StateStandIn:
		return []finding{ok(what, "the stand-in, in "+dir)}
	case place.State == openpbs.StateUpgraded:
		return []finding{degraded(what, "PBS was upgraded: the stand-in in "+dir+" is gone", "hookhost openpbs install --native, or uninstall --native")}
	case place.State == openpbs.StateUnknown:
		return []finding{degraded(what, place.Why, "docs/openpbs.md")}
	}
	return nil
}
