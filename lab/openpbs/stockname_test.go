//go:build openpbs

package openpbs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Software that looks for the hook pbs_cgroups finds hookhost's. What uninstall leaves is PBS's.
func TestHookThatHasTheStockHooksName(t *testing.T) {
	const stock = "pbs_cgroups"
	printHook := func() string { return on(t, nodes[0], "qmgr -c 'print hook "+stock+"'") }
	before := printHook()
	on(t, nodes[0], "hookhost openpbs uninstall")
	t.Cleanup(func() {
		err := run(nodes[0], "hookhost openpbs uninstall --name "+stock+" || :")
		if err := errors.Join(err, register()); err != nil {
			t.Error(err)
		}
	})
	on(t, nodes[0], "hookhost openpbs install --name "+stock)
	write(t, nodes[0], "/run/site.toml", "[pids]\nmax = 1234")
	on(t, nodes[0], "hookhost openpbs config --name "+stock+" /run/site.toml")

	j := oneOnEach(t)
	j.running()
	for _, node := range nodes {
		if limit := j.read(node, "pids.max", "pids.max"); limit != "1234" {
			t.Errorf("pids.max on %s: %s, want 1234", node, limit)
		}
		on(t, node, "! grep -x enabled=false "+pbsHome+"/mom_priv/hooks/"+stock+".HK")
		if said := on(t, node, "hookhost doctor || :"); !strings.Contains(said, "hooks/"+stock+".PY, calls") ||
			strings.Contains(said, "beside hookhost's") {
			t.Errorf("doctor on %s: %s", node, said)
		}
	}
	j.deleted()

	on(t, nodes[0], "hookhost openpbs uninstall --name "+stock)
	must.Equal(t, "the stock hook", before, printHook())
	for _, node := range nodes {
		for _, suffix := range []string{"PY", "CF"} {
			on(t, node, fmt.Sprintf("cmp %s/mom_priv/hooks/%s.%s /opt/pbs/lib/python/altair/pbs_hooks/%[2]s.%[3]s",
				pbsHome, stock, suffix))
		}
		on(t, node, "grep -x enabled=false "+pbsHome+"/mom_priv/hooks/"+stock+".HK")
	}
}
