package host

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// victim is a host in a process of its own: it prints its hooks' pids and waits to be killed.
func victim(dir string) {
	store, err := jobstate.Open(filepath.Join(dir, "jobs"), func(error) {})
	if err != nil {
		panic(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	h, err := Open(Options{
		Node: "n1", Self: self, Store: store, Processes: &processes{},
		Registry: &plugin.Registry{Dir: filepath.Join(dir, "hooks.d"), AllowUnsafePaths: true},
		Log:      logrus.NewEntry(log), RuntimeDir: filepath.Join(dir, "run"), StartTimeout: 30 * time.Second,
		Observer: &tally{}, SiteAdvice: noAdvice,
	})
	if err != nil {
		panic(err)
	}
	for running := 0; running < 3; time.Sleep(time.Millisecond) {
		list, err := h.Hooks()
		if err != nil {
			panic(err)
		}
		running = 0
		for _, hook := range list {
			if hook.State == "running" {
				running++
			}
		}
		if running < 3 {
			continue
		}
		for _, hook := range list {
			fmt.Println(hook.PID)
		}
	}
	fmt.Println("ready")
	select {}
}

// A host that is killed takes its hooks with it: one that watches its lifeline, one that does not,
// and one that hangs.
func TestKilledHostTakesHooksAlong(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "", "order=1")
	n.hook("b", "no-lifeline", "", "order=2")
	n.hook("c", "misbehave", `mode = "hang"`, "order=3")
	host := exec.Command("/proc/self/exe")
	host.Env = append(os.Environ(), victimEnv+"="+n.dir)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var hooks []string
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		hooks = append(hooks, filepath.Join("/proc", lines.Text()))
	}
	if len(hooks) != 3 {
		host.Process.Kill()
		host.Wait()
		t.Fatalf("%d hooks are ready, want 3", len(hooks))
	}
	for i, dir := range hooks {
		lifelines(t, dir, i)
	}
	host.Process.Kill()
	host.Wait()
	killed := time.Now()
	for _, dir := range hooks {
		plugintest.Eventually(t, dir+" is gone", func() bool { return !runs(dir) })
	}
	if took := time.Since(killed); took > 30*time.Second {
		t.Errorf("the hooks lived on for %v", took)
	}
	// The next host sweeps the sockets that the dead one left.
	for _, name := range []string{"a", "b", "c"} { // the third hangs at begin
		if err := n.registry.Set(name, "event=execjob_launch"); err != nil {
			t.Fatal(err)
		}
	}
	sockets := func() []string {
		paths, err := filepath.Glob(filepath.Join(n.dir, "run", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	dead := sockets()
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	for _, path := range sockets() {
		if slices.Contains(dead, path) {
			t.Errorf("%s of the dead host is still there", path)
		}
	}
	if len(dead) == 0 {
		t.Error("the dead host left no socket")
	}
}

// lifelines fails when the hook holds the writing end of any pipe but its standard output and
// error: it would keep a sibling alive. Nor may it hold anything else of the host's.
func lifelines(t *testing.T, dir string, i int) {
	fds, err := os.ReadDir(filepath.Join(dir, "fdinfo"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if err != nil {
			continue
		}
		info, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		if err != nil {
			continue
		}
		writes := false
		for line := range strings.Lines(string(info)) {
			if flags, ok := strings.CutPrefix(line, "flags:"); ok {
				flags = strings.TrimSpace(flags)
				writes = strings.HasSuffix(flags, "1") || strings.HasSuffix(flags, "2")
			}
		}
		if mine, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && mine == target {
			continue // whoever started this test left it open for all
		}
		host := fd.Name() != "1" && fd.Name() != "2"
		if strings.HasPrefix(target, "pipe:") && writes && host && !bothEnds(dir, target) {
			t.Errorf("hook %d: descriptor %s writes to %s of the host", i, fd.Name(), target)
		}
		if strings.HasSuffix(target, ".db") || strings.HasSuffix(target, "/host-") {
			t.Errorf("hook %d: descriptor %s is %s", i, fd.Name(), target)
		}
	}
}

// bothEnds reports whether the process holds the pipe's other end as well: go-plugin makes such for
// its own output.
func bothEnds(dir, pipe string) bool {
	fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
	ends := 0
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil && target == pipe {
			ends++
		}
	}
	return ends > 1
}
