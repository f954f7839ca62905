package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/integrations/openpbs/table"
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
	dir := momHooks(home)
	scripts, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	findings := []finding{c.examineShim(dir, scripts)}
	if enabled(filepath.Join(dir, openpbs.Stock)) && findings[0].Status != statusImpossible {
		findings = append(findings, degraded("PBS hook "+openpbs.Stock, "is enabled beside hookhost's: both confine each job, in cgroups of the same name",
			"on the PBS server's host: qmgr -c 'set hook "+openpbs.Stock+" enabled = false'"))
	}
	findings = append(findings, c.examineAttributes(dir, scripts, cfg)...)
	if findings[0].Status != statusImpossible {
		findings = append(findings, examineResource(dir)...)
	}
	text, err := os.ReadFile(cfg.OpenPBS.Conf)
	if err != nil {
		return findings
	}
	return append(findings, examinePython(filepath.Join(pbs.Exec(pbs.Conf(string(text))), "bin"))...)
}

// examineShim looks at the script of our hook, and at what it calls.
func (c *cli) examineShim(dir string, files []fs.DirEntry) finding {
	for name, text := range ourScripts(dir, files) {
		path := filepath.Join(dir, name+".PY")
		what := "PBS hook " + name
		if !enabled(filepath.Join(dir, name)) {
			return impossible(what, "is not enabled: pbs_mom does not call hookhost", "on the PBS server's host: qmgr -c 'set hook "+name+" enabled = true'")
		}
		if !bytes.HasSuffix(text, append([]byte("\n"), openpbs.Shim()...)) {
			return degraded(what, path+" is of another version of hookhost", "on the PBS server's host: hookhost openpbs install, or what 'hookhost openpbs print' prints")
		}
		text, err := os.ReadFile(filepath.Join(dir, name+".CF"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return degraded(what, err.Error(), "")
		}
		socket := cmp.Or(table.Read(text)["socket"], table.Socket)
		if socket != c.socket {
			return degraded(what, fmt.Sprintf("calls %s; the daemon's socket is %s", socket, c.socket),
				fmt.Sprintf("socket = %q in [shim] of what 'hookhost openpbs config' prints, on the PBS server's host", c.socket))
		}
		return ok(what, fmt.Sprintf("%s, calls %s", path, socket))
	}
	return impossible("PBS hook", "none of hookhost's in "+dir+": pbs_mom does not call hookhost", "on the PBS server's host: hookhost openpbs install, or what 'hookhost openpbs print' prints")
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
		return []finding{degraded(what, place.Why, "docs/openpbs-reference.md")}
	}
	return nil
}
