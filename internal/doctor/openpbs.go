package doctor

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
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	momhook "github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/pbscgroups"
	"github.com/hookhost/hookhost/internal/settings"
)

// examineOpenPBS examines the pbs_mom of this host: the hook, as the server sent it to
// mom_priv/hooks, and pbs_python. It reports nothing on a host without pbs_mom, or if only root may
// read its folder. hooks are the daemon's.
func (n *Node) examineOpenPBS(hooks []api.HookInfo) []Finding {
	home, err := n.Settings.File.OpenPBS.MoMHome()
	if err != nil {
		return nil
	}
	dir := openpbs.HooksOf(home)
	name, err := dir.Ours()
	if err != nil {
		return nil
	}
	findings := []Finding{n.examineShim(dir, name)}
	called := findings[0].Status != Impossible
	findings = append(findings, examineOthers(dir, name)...)
	if called && name != openpbs.Stock && n.Settings.File.Host.Enabled && n.stockConfines(dir) {
		findings = append(findings, degraded("PBS hook "+openpbs.Stock,
			"is enabled beside hookhost's: both confine each job, in cgroups of the same name",
			"on the PBS server's host: qmgr -c 'set hook "+openpbs.Stock+" enabled = false'; "+
				"while hosts move in stages, exclude_hosts in its configuration"))
	}
	if h, err := dir.Hook(name); err == nil && h.Enabled() {
		findings = append(findings, n.examineAttributes(h, hooks)...)
	}
	if called {
		findings = append(findings, examineResources(dir, n.Settings.File)...)
	}
	conf, err := os.ReadFile(n.Settings.File.OpenPBS.Conf)
	if err != nil {
		return findings
	}
	return append(findings, examinePython(filepath.Join(pbs.Exec(pbs.Conf(string(conf))), "bin"), n.StandIn)...)
}

// examineOthers reports enabled hooks that are hookhost's too, beside the one with that name.
func examineOthers(dir openpbs.MoMHooks, name string) (findings []Finding) {
	names, _ := dir.AllOurs() // examineOpenPBS has read them
	for _, other := range names {
		if other != name && dir.Enabled(other) {
			findings = append(findings, degraded("PBS hook "+other,
				"is hookhost's and enabled, beside "+name+": each event comes twice",
				"on the PBS server's host: hookhost openpbs uninstall --name "+other))
		}
	}
	return findings
}

// stockConfines reports whether pbs_cgroups confines the jobs of this host. It does unless its
// configuration excludes the host.
func (n *Node) stockConfines(dir openpbs.MoMHooks) bool {
	if !dir.Enabled(openpbs.Stock) {
		return false
	}
	text, err := os.ReadFile(dir.Config(openpbs.Stock))
	if err != nil {
		return true
	}
	here, err := settings.Here(&n.Settings.File.OpenPBS)
	if err != nil {
		return true
	}
	stock, err := pbscgroups.Read(text)
	if err != nil {
		return true
	}
	f, err := config.Parse(stock.TOML, here)
	return err != nil || f.Host.Enabled
}

// examineShim compares the script of our hook with this program, and the program and socket that
// the script uses. name is "" if pbs_mom does not have our hook.
func (n *Node) examineShim(dir openpbs.MoMHooks, name string) Finding {
	if name == "" {
		return impossible("PBS hook", "hookhost's is not in "+string(dir)+": pbs_mom does not call hookhost",
			"on the PBS server's host: hookhost openpbs install, or what 'hookhost openpbs print' prints")
	}
	what, path := "PBS hook "+name, dir.Script(name)
	if !dir.Enabled(name) {
		return impossible(what, "is not enabled: pbs_mom does not call hookhost",
			"on the PBS server's host: qmgr -c 'set hook "+name+" enabled = true'")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return degraded(what, err.Error(), "")
	}
	if !bytes.HasSuffix(text, append([]byte("\n"), openpbs.Shim()...)) {
		return degraded(what, path+" is of another version of hookhost",
			"on the PBS server's host: hookhost openpbs install, or what 'hookhost openpbs print' prints")
	}
	text, err = os.ReadFile(dir.Config(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return degraded(what, err.Error(), "")
	}
	socket := cmp.Or(table.Read(text)["socket"], table.Socket)
	if socket != n.Socket {
		return degraded(what, fmt.Sprintf("calls %s; the daemon's socket is %s", socket, n.Socket),
			fmt.Sprintf("socket = %q in [shim] of what 'hookhost openpbs config' prints, on the PBS server's host",
				n.Socket))
	}
	return ok(what, fmt.Sprintf("%s, calls %s", path, socket))
}

// examineResources reports which resources the server lacks, from the custom resources that it has
// sent to this node. If it has them, there is no finding.
func examineResources(dir openpbs.MoMHooks, cfg *config.File) []Finding {
	const what = "PBS resource "
	text, err := os.ReadFile(dir.Resources())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Finding{degraded(what+momhook.DiagMessages, err.Error(), "")}
	}
	var findings []Finding
	known := momhook.ParseResourcedef(text)
	for _, r := range []struct{ name, lack string }{
		{momhook.DiagMessages, "that a job was killed because memory ran out"},
		{momhook.HostUsage, "what a job used on each host"},
	} {
		if !known.Knows(r.name) {
			findings = append(findings, degraded(what+r.name,
				"the server does not know it, so neither qstat nor accounting shows "+r.lack,
				"hookhost openpbs install, on the PBS server's host"))
		}
	}
	if cfg.Container.Enabled && !known.Knows(config.ContainerResource) {
		findings = append(findings, degraded(what+config.ContainerResource,
			"the server does not know it, so no job can name an image",
			"hookhost openpbs install --container, on the PBS server's host"))
	}
	if cfg.Private.HasSharedMemory() && !known.Knows(config.SharedMemorySize) { // the site's choice
		f := ok(what+config.SharedMemorySize, "the server does not know it, so no job can choose the size of its "+
			config.SharedMemory)
		f.Advice = "on the PBS server's host: qmgr -c 'create resource " + config.SharedMemorySize +
			" type=size, flag=m'"
		findings = append(findings, f)
	}
	return findings
}

// examinePython reports which program answers hooks' events. PBS's own program, the usual one, is
// not a finding. program is the stand-in of this hookhost, which may not exist.
func examinePython(dir, program string) []Finding {
	if _, err := os.Stat(program); err != nil {
		program = ""
	}
	const what = "pbs_python"
	place, err := openpbs.StandIn{Dir: dir}.Inspect(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []Finding{degraded(what, err.Error(), "docs/openpbs-reference.md")}
	case place.Lost:
		return []Finding{degraded(what, "PBS was upgraded: the stand-in in "+dir+" is gone",
			"hookhost openpbs install --native, or uninstall --native")}
	case place.Outdated:
		return []Finding{degraded(what, "the stand-in of another version of hookhost, in "+dir,
			"hookhost openpbs install --native")}
	case place.StandIn:
		return []Finding{ok(what, "the stand-in, in "+dir)}
	}
	return nil
}
