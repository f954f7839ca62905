//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// TestPBSSendsAPrologueWhereItIsAskedForOneAlone tells by the site's script of a prologue, which
// MoM runs where no hook handles that event.
func TestPBSSendsAPrologueWhereItIsAskedForOneAlone(t *testing.T) {
	node := nodes[0]
	const script, ran = pbsHome + "/mom_priv/prologue", "/run/prologue.ran"
	on(t, node, "printf '#!/bin/sh\\ntouch "+ran+"\\n' >"+script+"; chmod 500 "+script)
	t.Cleanup(func() {
		on(t, node, "rm -f "+script+" "+ran)
		on(t, node, "qmgr -c 'set hook hookhost event -= execjob_prologue'; hookhost openpbs install")
	})
	attribute := func(name string) string {
		return on(t, node, "qmgr -c 'print hook hookhost' | grep ' "+name+" ' | sed 's/.*= //' | tr '\\n' ,")
	}
	freq := attribute("freq")
	const install, without = "hookhost openpbs install", "qmgr -c 'set hook hookhost event -= execjob_prologue'; "
	for _, tt := range []struct {
		command    string
		scriptRuns bool
	}{
		{install, true}, {install + " --event execjob_prologue", false}, {install, false}, {without + install, true},
	} {
		on(t, node, "rm -f "+ran+"; "+tt.command)
		must.Equal(t, "registered by "+tt.command, !tt.scriptRuns,
			strings.Contains(attribute("event"), "execjob_prologue"))
		must.Equal(t, "freq", freq, attribute("freq"))
		eventually(t, "the node has the events", func() bool {
			events := on(t, node, "grep ^event= "+pbsHome+"/mom_priv/hooks/hookhost.HK")
			return strings.Contains(events, "execjob_prologue") != tt.scriptRuns
		})
		qsub(t, "alice", small(node), "true").succeeds()
		out := on(t, node, "[ ! -e "+ran+" ] || echo yes")
		must.Equal(t, "the site's script runs after "+tt.command, tt.scriptRuns, out == "yes")
	}
}
