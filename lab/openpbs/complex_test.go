//go:build openpbs

package openpbs_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// here is set in a guest: the machine itself is node1 of a complex that runs already.
var here = flag.Bool("here", false, "this machine is node1 of a running complex, with hookhost installed")

// queue is a directory with a file for each test to run, named NUMBER-TEST. A process of several
// side by side takes the first one by removing its file: see test.
var queue = flag.String("queue", "", "directory of the names of tests that several processes share")

// nodes of the complex. The first has server, scheduler and comm. threeNodes adds the third.
var nodes = []string{"node1", "node2"}

// thirdNode is offline but for tests of three nodes. So jobs of two get the two that tests name.
const thirdNode = "node3"

// pbsHome is PBS_HOME, on each node.
const pbsHome = "/var/spool/pbs"

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" { // names need no complex
		os.Exit(m.Run())
	}
	os.Exit(runTests(m))
}

// runTests starts the complex, installs hookhost on it as docs/openpbs.md has it, and runs all
// tests. The complex is removed in any case.
func runTests(m *testing.M) int {
	if *here {
		nodes = nodes[:1]
		if err := register(); err != nil {
			fmt.Fprintln(os.Stderr, "register hookhost:", err)
			return 1
		}
		return m.Run()
	}
	if os.Getenv("LAB") == "" {
		os.Setenv("LAB", "hhtest")
	}
	began := time.Now()
	up := exec.Command("./up", "-n", fmt.Sprint(len(nodes)+1))
	up.Stdout, up.Stderr = os.Stderr, os.Stderr
	if err := up.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		return 1
	}
	defer exec.Command("./down").Run()
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, "install hookhost:", err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "a complex with hookhost after %.0f s\n", time.Since(began).Seconds())
	if *queue != "" {
		return runQueue(m)
	}
	return m.Run()
}

// runQueue runs tests from queue until none is left. M.Run may be called several times.
func runQueue(m *testing.M) (status int) {
	for {
		test, err := popTest()
		if err != nil {
			fmt.Fprintln(os.Stderr, "queue:", err)
			return 1
		}
		if test == "" {
			return status
		}
		if err := flag.Set("test.run", "^"+test+"$"); err != nil {
			fmt.Fprintln(os.Stderr, "queue:", err)
			return 1
		}
		status |= m.Run()
		rest()
	}
}

// rest waits until the nodes are as a test expects them: free, with all their cpus, and with
// nothing left of a job. PBS ends the last jobs of a test after the test, and learns only then what
// the nodes have.
func rest() {
	var left string
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		err := atOnce(nodes, func(node string) error {
			has, err := output("root", node, leftovers())
			if has != "" {
				err = fmt.Errorf("%s still has %s", node, strings.Join(strings.Fields(has), " "))
			}
			return errors.Join(err, run(nodes[0], "[ $(pbsnodes -v "+node+
				" | grep -cx -e ' *state = free' -e ' *resources_available.ncpus = '$(nproc)) = 2 ]"))
		})
		if err == nil {
			return
		}
		left = err.Error()
	}
	fmt.Fprintln(os.Stderr, "after the test:", left)
}

// popTest removes the first test from queue and returns its name, or "" if queue is empty.
func popTest() (string, error) {
	entries, err := os.ReadDir(*queue)
	for _, e := range entries {
		switch err := os.Remove(filepath.Join(*queue, e.Name())); {
		case err == nil:
			_, test, _ := strings.Cut(e.Name(), "-")
			return test, nil
		case !errors.Is(err, fs.ErrNotExist): // else another process was faster
			return "", err
		}
	}
	return "", err
}

// install does what docs/openpbs.md tells an administrator of nodes without systemd.
func install() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	for _, node := range append(nodes, thirdNode) {
		if err := errors.Join(
			run(node, "make -s -C "+root+" -o all install"),
			run(node, startDaemon),
		); err != nil {
			return err
		}
	}
	return errors.Join(register(), run(nodes[0], "pbsnodes -o "+thirdNode))
}

// register has the server and each node know hookhost's hook. exechost_periodic comes more often
// than by default, so that no test has to wait for it: MoM takes another freq over only when the
// old one has passed.
func register() error {
	return run(nodes[0], "hookhost openpbs install --freq 5")
}

// needNodes leaves a test of more nodes than there are to the complex on the machine.
func needNodes(t *testing.T, n int) {
	t.Helper()
	if len(nodes) < n {
		kernfstest.Elsewhere(t, "%d nodes: make test-openpbs", n)
	}
}

// threeNodes has the complex be of three nodes for a test.
func threeNodes(t *testing.T) {
	t.Helper()
	needNodes(t, 2)
	on(t, nodes[0], "pbsnodes -r "+thirdNode)
	nodes = append(nodes, thirdNode)
	t.Cleanup(func() {
		nodes = nodes[:2]
		on(t, nodes[0], "pbsnodes -o "+thirdNode)
	})
}

// command is a shell line on a node, of root or of another user.
func command(ctx context.Context, user, node, line string) *exec.Cmd {
	switch {
	case *here && user == "root":
		return exec.CommandContext(ctx, "bash", "-c", line)
	case *here:
		return exec.CommandContext(ctx, "runuser", "-l", user, "-c", line)
	}
	return exec.CommandContext(ctx, "./in", "-u", user, node, "bash", "-c", line)
}

// output returns what a shell line prints. The error has its standard error.
func output(user, node, line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute*slowness())
	defer cancel()
	cmd := command(ctx, user, node, line)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(out.String()), fmt.Errorf("%s@%s: %s: %w: %s",
			user, node, line, err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func run(node, line string) error {
	_, err := output("root", node, line)
	return err
}

// on returns what a shell line of root's prints on a node. The test ends where the line fails.
func on(t *testing.T, node, line string) string {
	t.Helper()
	return as(t, "root", node, line)
}

// as is on for another user.
func as(t *testing.T, user, node, line string) string {
	t.Helper()
	out, err := output(user, node, line)
	must.NoError(t, err)
	return out
}

// slowness is how many times longer than on the machine waits are: guests may be without KVM.
func slowness() time.Duration {
	if *here {
		return 3
	}
	return 1
}

// eventually waits for what comes by itself, as long as a slow machine needs that stands still now
// and then. A test whose subject is a time asserts that time itself.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	within(t, what, 3*time.Minute, is)
}

// within is eventually with another time.
func within(t *testing.T, what string, within time.Duration, is func() bool) {
	t.Helper()
	within *= slowness()
	for end := time.Now().Add(within); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}
