package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// Versions and controllers come from the mount table, hybrid hosts included, and of a controller
// that is not there its name is told.
func TestChecklist01ControllersFromTheMountTable(t *testing.T) {
	v1, v2 := cgroupMounts(t)
	m := newMoM(t)
	d := m.serve()
	j := pbsJob{id: "101.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(j)
	dirs := m.dirsOf(j.id)
	for _, mount := range v1 {
		if filepath.Base(mount) == "memory" && m.limit(j.id) != 32<<20 {
			t.Errorf("v1 memory: limit %d", m.limit(j.id))
		}
	}
	of := func(mounts []string) (n int) {
		for _, dir := range dirs {
			for _, mount := range mounts {
				if strings.HasPrefix(dir, mount+"/") {
					n++
				}
			}
		}
		return n
	}
	if onV1, onV2 := of(v1), of(v2); len(v1) > 0 && onV1 == 0 || len(v1) == 0 && onV2 == 0 {
		t.Errorf("mounted are v1 %v and v2 %v, the job has %v", v1, v2, dirs)
	}
	m.end(j)
	d.stop()

	at := slices.IndexFunc(v1, func(mount string) bool { return filepath.Base(mount) == "memory" })
	if at < 0 { // of v2 no controller can be hidden without all others
		cmd := m.command("serve")
		var said bytes.Buffer
		cmd.Stderr = &said
		must.NoError(t, startWithout(cmd, slices.Concat(v1, v2)))
		if err := cmd.Wait(); err == nil ||
			!strings.Contains(said.String(), "neither a cgroup controller nor a cgroup2 tree is mounted") {
			t.Errorf("serve without %v and %v: %v, %s", v1, v2, err, said.String())
		}
		return
	}
	m.serveBy(func(cmd *exec.Cmd) error { return startWithout(cmd, v1[at:at+1]) })
	a := m.job("execjob_begin", j)
	if a.accepted || !strings.Contains(a.message, "memory") {
		t.Errorf("without %s: %+v, want a reject that names the controller", v1[at], a)
	}
	if left := m.dirsOf(j.id); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}

// cgroupMounts returns where controllers of v1 and the tree of v2 are mounted.
func cgroupMounts(t *testing.T) (v1, v2 []string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	must.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		switch f := strings.Fields(line); {
		case f[2] == "cgroup" && !strings.Contains(f[3], "name="):
			v1 = append(v1, f[1])
		case f[2] == "cgroup2":
			v2 = append(v2, f[1])
		}
	}
	return v1, v2
}

// startWithout starts a command where these file systems are not mounted.
func startWithout(cmd *exec.Cmd, mounts []string) error {
	return startAmong(cmd, func() error {
		for _, at := range mounts {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", at, err)
			}
		}
		return nil
	})
}

// startAmong starts a command among mounts of its own, which change makes of this machine's.
func startAmong(cmd *exec.Cmd, change func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is thrown away
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("mount / private: %w", err)
			}
			if err := change(); err != nil {
				return err
			}
			return cmd.Start()
		}()
	}()
	return <-done
}

// Begin may come again, also over a cgroup that another has left under the job's id. A begin that
// is rejected, by this hook or by one of another's, leaves nothing. TestPBSDroppedJobsMakeRoom has
// the begin of which MoM says nothing more.
func TestChecklist03BeginIsIdempotentAndLeavesNothing(t *testing.T) {
	m := newMoM(t)
	m.serve()
	cpus := online(t)
	all := fmt.Sprintf("ncpus=%d,mem=32mb", cpus)

	// The parents of all jobs are there from the first begin on.
	first := pbsJob{id: "301.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(first)
	a := m.job("execjob_begin", first)
	if !a.accepted || m.limit(first.id) != 32<<20 {
		t.Errorf("the same begin again: %+v", a)
	}
	first.run = 2 // MoM has started it anew, and has told nobody
	first.list = "ncpus=1,mem=48mb"
	if a := m.job("execjob_begin", first); !a.accepted || m.limit(first.id) != 48<<20 {
		t.Errorf("the next run: %+v", a)
	}
	m.end(first)

	left := pbsJob{id: "302.pbshost", list: all}
	must.NoError(t, os.Mkdir(m.memoryDir(left.id), 0o755))
	stray := sleeper(t, ownerUID)
	must.NoError(t, os.WriteFile(m.memoryDir(left.id)+"/cgroup.procs", fmt.Append(nil, stray.Process.Pid), 0))
	m.begin(left)
	stray.Wait() // or the test hangs
	if got := m.limit(left.id); got != 32<<20 {
		t.Errorf("over a leftover: limit %d", got)
	}
	m.end(left)

	big := pbsJob{id: "303.pbshost", list: "ncpus=1,mem=900tb"}
	if a := m.job("execjob_begin", big); a.accepted || len(m.dirsOf(big.id)) > 0 {
		t.Errorf("more memory than there is: %+v; left %v", a, m.dirsOf(big.id))
	}

	m.register("later", "execjob_begin", 900, "reject = \"not today\"\n")
	last := pbsJob{id: "304.pbshost", list: all}
	if a := m.job("execjob_begin", last); a.accepted || !strings.Contains(a.message, "not today") ||
		len(m.dirsOf(last.id)) > 0 {
		t.Errorf("rejected by a hook of hookhost: %+v; left %v", a, m.dirsOf(last.id))
	}
	m.commands("hook set later enabled=false")
}

// write makes a file of the node's and returns its path.
func (n *node) write(name, text string) string {
	n.t.Helper()
	must.NoError(n.t, os.WriteFile(n.path(name), []byte(text), 0o600))
	return n.path(name)
}

// sample returns a hook of testdata/hooks, built.
func sample(t testing.TB, name string) string {
	t.Helper()
	program := filepath.Join(built, "samples", name)
	if exists(program) {
		return program
	}
	cmd := exec.Command("go", "build", "-o", program, "../../testdata/hooks/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}

// No sweep touches a job that is being set up. The sweep removes a cgroup that is no job's.
func TestChecklist08SweepSparesJobsInSetup(t *testing.T) {
	m := newMoM(t)
	arrived, until := m.path("arrived"), m.path("until")
	m.register("slow", "execjob_begin", 900, fmt.Sprintf("arrived = %q\nuntil = %q\n", arrived, until))
	d := m.serve()
	j := pbsJob{id: "801.pbshost", list: "ncpus=1,mem=32mb"}
	m.endAtLast(j)
	done := m.aside("execjob_begin", j)
	must.Eventually(t, "the job is half set up", func() bool { return exists(arrived) })
	orphan := m.memoryDir("802.pbshost")
	must.NoError(t, os.Mkdir(orphan, 0o755))
	for range 2 {
		if r := m.node.send("exechost_periodic", `{"vnode_list": {}}`); r.status != 0 {
			t.Errorf("periodic: %+v", r)
		}
	}
	if !exists(m.memoryDir(j.id)) {
		t.Error("the sweep has removed a job that is being set up")
	}
	if exists(orphan) {
		t.Error("the sweep has left what is nobody's")
	}
	must.NoError(t, os.WriteFile(until, nil, 0o600))
	if a := <-done; !a.accepted || m.limit(j.id) != 32<<20 {
		t.Errorf("begin: %+v", a)
	}
	m.end(j)

	// A job that was never set up to its end goes when the next daemon comes.
	must.NoError(t, os.Remove(arrived), os.Remove(until))
	done = m.aside("execjob_begin", j)
	must.Eventually(t, "the job is half set up once more", func() bool { return exists(arrived) })
	d.killAll()
	if a := <-done; a.accepted {
		t.Errorf("a begin in which the daemon has died: %+v", a)
	}
	m.serve()
	must.Eventually(t, "the job is gone", func() bool { return len(m.dirsOf(j.id)) == 0 })
}

// register makes testdata/hooks/play a hook for one event; config is the rest of its configuration.
func (m *mom) register(name, event string, order int, config string, attributes ...string) {
	m.t.Helper()
	file := m.write(name+".toml", fmt.Sprintf("event = %q\n%s", event, config))
	m.commands("hook create "+name,
		fmt.Sprintf("hook set %s event=%s order=%d %s", name, event, order, strings.Join(attributes, " ")),
		"hook import "+name+" application/x-executable default "+sample(m.t, "play"), "hook import "+name+
			" application/x-config default "+file)
}
