//go:build openpbs

package openpbs_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// ownFile is the configuration of a node itself.
const ownFile = "/etc/hookhost/hookhost.toml"

// settings gives hookhost on some nodes a hookhost.toml, which their daemons have in force when it
// returns. PBS is told what exechost_startup tells with it. The end of the test takes both back.
func settings(t *testing.T, toml string, on ...string) {
	t.Helper()
	takenBack(t, on...)
	change(t, toml, on...)
}

// takenBack undoes change when the test ends. hookhost then reads the node again, for example its
// topology. So clean-ups that restore such things have to run first: register them after this call.
func takenBack(t *testing.T, on ...string) {
	t.Helper()
	t.Cleanup(func() {
		err := atOnce(on, func(node string) error {
			return errors.Join(run(node, "rm -f "+ownFile), reconfigure(node))
		})
		if err != nil {
			t.Errorf("the settings are not as before: %v", err)
		}
	})
}

// change gives nodes other settings in a test that has called settings or takenBack.
func change(t *testing.T, toml string, on ...string) {
	t.Helper()
	for _, node := range on {
		write(t, node, ownFile, toml)
	}
	must.NoError(t, atOnce(on, reconfigure))
}

// atOnce calls a function for each node at the same time and waits until all have returned.
func atOnce(nodes []string, do func(node string) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { errs[i] = do(node) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// migrated is settings with what hookhost makes of a configuration of pbs_cgroups.
func migrated(t *testing.T, configuration string, on ...string) {
	t.Helper()
	settings(t, converted(t, configuration, on[0]), on...)
}

// converted is the hookhost.toml that hookhost makes on a node of a configuration of pbs_cgroups.
func converted(t *testing.T, configuration, node string) string {
	t.Helper()
	write(t, node, "/run/pbs_cgroups.json", configuration)
	return imported(t, node, "/run/pbs_cgroups.json")
}

// imported is the hookhost.toml that hookhost makes of a file that is a configuration of
// pbs_cgroups.
func imported(t *testing.T, node, path string) string {
	t.Helper()
	return on(t, node, "hookhost config import "+path+" 2>/run/import.table")
}

// write makes a file of root's on a node.
func write(t *testing.T, node, path, content string) {
	t.Helper()
	on(t, node, fmt.Sprintf("mkdir -p $(dirname %s) && cat >%s <<'END OF FILE'\n%s\nEND OF FILE", path, path, content))
}

// reload has a daemon read its configuration again, and fails where that is refused. The answer
// comes when the daemon has it, unlike the log's after a SIGHUP. Guests have no curl.
const reload = `python3 -c '
import http.client, socket
s = socket.socket(socket.AF_UNIX)
s.connect("/run/hookhost/hookhost.sock")
c = http.client.HTTPConnection("hookhost")
c.sock = s
c.request("POST", "/v1/reload")
r = c.getresponse()
if r.status >= 300:
    raise SystemExit(r.read().decode())
'`

// reconfigure has the daemon of a node read its configuration again, and the MoM run
// exechost_startup.
func reconfigure(node string) error {
	return errors.Join(run(node, reload), causes(node, hangUp, "event=exechost_startup"))
}

// causes runs a line on a node, and waits for one more line of the daemon's log that has a word.
func causes(node, line, word string) error {
	before, err := said(node, word)
	if err != nil {
		return err
	}
	if err := run(node, line); err != nil {
		return err
	}
	for end := time.Now().Add(3 * time.Minute * slowness()); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if now, err := said(node, word); err != nil || now > before {
			return err
		}
	}
	return fmt.Errorf("%s: %s: no line %q in the daemon's log", node, line, word)
}

// said counts the lines of the daemon's log that have a word.
func said(node, word string) (int, error) {
	out, err := output("root", node, readDaemonLog+" | grep -c '"+word+"' || :")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// twicePeriodic waits until exechost_periodic has come to a node twice: the second time all of it
// has happened since.
func twicePeriodic(t *testing.T, node string) {
	t.Helper()
	const event = "event=exechost_periodic"
	before, err := said(node, event)
	must.NoError(t, err)
	eventually(t, "exechost_periodic comes twice to "+node, func() bool {
		now, err := said(node, event)
		must.NoError(t, err)
		return now >= before+2
	})
}

// qmgr runs directives on the server.
func qmgr(t *testing.T, directives ...string) {
	t.Helper()
	for _, directive := range directives {
		on(t, nodes[0], fmt.Sprintf("qmgr -c '%s'", directive))
	}
}

// until waits for a line to succeed on a node, for some minutes at the most. A server may need a
// minute and a half until it takes a MoM that was restarted for free.
func until(node, line string) error {
	return run(node, "for i in $(seq 1800); do "+line+" && exit 0; sleep 0.1; done; exit 1")
}
