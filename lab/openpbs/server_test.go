//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

// There qmgr lists no hook, and exits with 0.
func TestCommandsOffTheServersHostSayThatHooksAreChangedThere(t *testing.T) {
	needNodes(t, 2)
	write(t, nodes[1], "/run/site.toml", "")
	for _, command := range []string{"install", "install --dry-run", "uninstall", "config", "config /run/site.toml"} {
		said, err := output("root", nodes[1], "hookhost openpbs "+command+" 2>&1")
		if err == nil || !strings.Contains(said, "(hooks are changed on the host of the PBS server)") {
			t.Errorf("%s: %v, says %q", command, err, said)
		}
	}
}
