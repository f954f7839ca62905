package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// fpgas makes device nodes in /dev, with numbers for local use, and the configuration that hands
// them out as -l fpga=N.
func fpgas(t *testing.T, count int) (paths []string, config string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev", "hhtest-")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755))
	for i := range count {
		path := filepath.Join(dir, "fpga"+strconv.Itoa(i))
		// 120 to 127 are for local use (Documentation/admin-guide/devices.txt): no driver, and
		// ENXIO for who gets past the filter.
		must.NoError(t, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(120, uint32(i)))))
		if err := os.Chmod(path, 0o666); err != nil { // whatever the umask
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths, fmt.Sprintf("[devices]\ncdi_dir = \"\"\n[[device]]\nresource = \"fpga\"\npaths = [%q]\nmodel = "+
		"\"Test\"\nenv = { FPGA = \"{path}\" }\n", dir+"/fpga*")
}

// tryOpen is a shell's loop that says of each file how opening it ends: granted, also where there
// is no driver, or denied.
const tryOpen = `for f; do m=$( (exec 3<>"$f") 2>&1 ) && m=open; case $m in
	*"not permitted"*) echo "$f denied";; *"No such device"*|open) echo "$f granted";; *) echo "$f $m";; esac; done`

// granted returns those of paths that a job's output says are granted, and fails for what it says
// of neither.
func granted(t *testing.T, output string, paths ...string) []string {
	t.Helper()
	var list []string
	for _, p := range paths {
		switch {
		case strings.Contains(output, p+" granted\n"):
			list = append(list, p)
		case !strings.Contains(output, p+" denied\n"):
			t.Errorf("nothing of %s in %q", p, output)
		}
	}
	return list
}

// A job can open the devices that it was given, and no other, whoever it runs as. Two jobs get
// different ones. A third that asks for more than there are is told the numbers.
func TestRunGrantsDevices(t *testing.T) {
	paths, config := fpgas(t, 3)
	n := newNode(t, config)
	n.serve()
	all := append([]string{"-c", tryOpen, "sh", "/dev/null", "/dev/urandom", "/dev/kmsg"}, paths...)
	first := n.start("run", "-l", "ncpus=0,fpga=2", "--report", "json", "--", "sh", "-c", `echo "$FPGA"; `+tryOpen+
		`; read x; exit 0`, "sh", paths[0], paths[1], paths[2])
	first.await("fpga2 ") // its last line
	if got := granted(t, first.output(), paths...); len(got) != 2 ||
		!strings.HasPrefix(first.output(), strings.Join(got, ",")+"\n") {
		t.Errorf("a job with fpga=2 opens %v; it says %q", got, first.output())
	}
	second := n.hookhost(append([]string{"run", "-l", "ncpus=0,fpga=1", "--report", "json", "--", "sh"}, all...)...)
	got := granted(t, second.stdout, paths...)
	if len(got) != 1 || len(granted(t, first.output(), got...)) != 0 {
		t.Errorf("a second job opens %v, beside %q", got, first.output())
	}
	if base := granted(t, second.stdout, "/dev/null", "/dev/urandom", "/dev/kmsg"); len(base) != 2 {
		t.Errorf("of the base list it opens %v, want null and urandom", base)
	}
	if !strings.Contains(second.stderr, `"devices":[{"id":"`+strings.Join(got, "")+
		`","resource":"fpga","model":"Test"`) {
		t.Errorf("the report does not name %v", got)
	}
	none := n.hookhost(append([]string{"run", "-l", "ncpus=0", "--report", "none", "--", "setsid", "-w", "sh"},
		all...)...)
	if got := granted(t, none.stdout, paths...); len(got) != 0 {
		t.Errorf("a job without fpga opens %v", got)
	}
	if r := n.hookhost("run", "-l", "ncpus=0,fpga=2", "--", "true"); r.status != 125 ||
		!strings.Contains(r.stderr, "fpga requested (2) exceeds fpga available (1)") {
		t.Errorf("two where one is left: status %d, %q", r.status, r.stderr)
	}
	if r := n.hookhost("run", "-l", "ncpus=0,fpga=9", "--", "true"); r.status != 125 ||
		!strings.Contains(r.stderr, "fpga requested (9) exceeds fpga available (3)") {
		t.Errorf("nine of three: status %d, %q", r.status, r.stderr)
	}
	first.end(t)
}

// A job without a GPU sees an empty list of them, and so does what is attached to it.
func TestRunWithoutGPU(t *testing.T) {
	n := newNode(t, "[devices]\ncdi_dir = \"\"")
	n.serve()
	const tell = `echo "${CUDA_VISIBLE_DEVICES-unset}:$CUDA_DEVICE_ORDER"`
	if r := n.hookhost("run", "--report", "none", "--", "sh", "-c", tell); r.stdout != ":PCI_BUS_ID\n" {
		t.Errorf("the job sees %q", r.stdout)
	}
	job := n.start("run", "--job", "8.x", "--report", "json", "--", "sh", "-c", "echo here; read x; exit 0")
	job.await("here")
	if r := n.hookhost("attach", "-s", "-j", "8.x", "sh", "-c", tell); r.stdout != ":PCI_BUS_ID\n" {
		t.Errorf("what is attached sees %q", r.stdout)
	}
	job.end(t)
}

// An attached program is told the devices that the job has by then. After a resize these are the
// new ones, after a refused resize the old ones. The next daemon tells the same, and so does one
// that has lost its records.
func TestAttachAfterResizeHasTheNewDevices(t *testing.T) {
	paths, config := fpgas(t, 2)
	n := newNode(t, config)
	d := n.serve()
	event := func(name string, count int) int {
		return n.send(name, fmt.Sprintf(`{"job": {"id": "13.x", "owner": {"user": "root", "uid": 0, "gid": 0},
			"resource_list": {"ncpus": 0, "fpga": %d}}}`, count)).status
	}
	attached := func() string {
		return n.hookhost("attach", "-s", "-j", "13.x", "sh", "-c", `echo "$FPGA:$CUDA_DEVICE_ORDER"`).stdout
	}
	want := func(when, devices string) {
		t.Helper()
		if got := attached(); got != devices+":PCI_BUS_ID\n" {
			t.Errorf("%s: what is attached sees %q, want %s", when, got, devices)
		}
	}
	if event("execjob_begin", 1) != 0 {
		t.Fatal("begin was rejected")
	}
	first := strings.Join(granted(t, n.openerIn("13.x", paths...)(), paths...), "")
	want("after begin", first)
	if event("execjob_resize", 2) != 0 {
		t.Fatal("resize was rejected")
	}
	both := strings.Join(paths, ",")
	want("after a resize", both)
	if event("execjob_resize", 9) == 0 {
		t.Error("nine of two were granted")
	}
	want("after a refused resize", both)
	d.kill()
	d = n.serve()
	want("with the next daemon", both)
	d.kill()
	must.NoError(t, os.RemoveAll(n.path("state")))
	n.serve()
	must.Eventually(t, "a job without a record has its variables",
		func() bool { return attached() == both+":PCI_BUS_ID\n" })
	if event("execjob_end", 0) != 0 {
		t.Error("end was rejected")
	}
}

// The filter is the kernel's: it stays when the daemon is killed, and is one program still when
// the next one has started.
func TestDeviceFilterOutlivesTheDaemon(t *testing.T) {
	paths, config := fpgas(t, 2)
	n := newNode(t, config)
	d := n.serve()
	if r := n.send("execjob_begin",
		`{"job": {"id": "9.x", "owner": {"user": "root", "uid": 0, "gid": 0}, "resource_list": {"ncpus": 0, "fpga": 1}}}`); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	ask := n.openerIn("9.x", paths...)
	want := granted(t, ask(), paths...)
	if len(want) != 1 {
		t.Fatalf("it opens %v", want)
	}
	for range 2 {
		d.kill()
		if got := granted(t, ask(), paths...); len(got) != 1 || got[0] != want[0] {
			t.Errorf("without the daemon it opens %v, want %v", got, want)
		}
		d = n.serve()
		if got := granted(t, ask(), paths...); len(got) != 1 || got[0] != want[0] {
			t.Errorf("with the next daemon it opens %v, want %v", got, want)
		}
	}
	if r := n.send("execjob_end", `{"job": {"id": "9.x"}}`); r.status != 0 {
		t.Error("end was rejected")
	}
}

// A resize grants and revokes, and what is revoked is another job's at once.
func TestResizeRevokesDevices(t *testing.T) {
	paths, config := fpgas(t, 2)
	n := newNode(t, config)
	n.serve()
	event := func(name, job string, count int) result {
		return n.send(name, fmt.Sprintf(`{"job": {"id": %q, "owner": {"user": "root", "uid": 0, "gid": 0}, "resource_list": {"ncpus": 0, "fpga": %d}}}`, job, count))
	}
	if r := event("execjob_begin", "10.x", 2); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	ask := n.openerIn("10.x", paths...)
	for _, count := range []int{2, 1, 0, 1, 2} {
		if r := event("execjob_resize", "10.x", count); r.status != 0 {
			t.Fatalf("resize to %d was rejected", count)
		}
		if got := granted(t, ask(), paths...); len(got) != count {
			t.Errorf("with fpga=%d it opens %v", count, got)
		}
		if r := n.hookhost("jobs", "--json"); strings.Count(r.stdout, `"resource":"fpga"`) != count {
			t.Errorf("with fpga=%d jobs tells other devices", count)
		}
		other := event("execjob_begin", "11.x", 2-count)
		if other.status != 0 {
			t.Errorf("the other %d are nobody's", 2-count)
		}
		if r := event("execjob_begin", "12.x", 1); r.status != 1 {
			t.Error("three devices of two were given away")
		}
		event("execjob_end", "11.x", 0)
	}
	report := func() string {
		return strings.ReplaceAll(n.hookhost("report", "--format", "json", "10.x").stdout, " ", "")
	}
	if text := report(); strings.Count(text, `"resource":"fpga"`) != 2 || strings.Contains(text, `"returned"`) {
		t.Error("the report does not tell the devices that the job has")
	}
	event("execjob_resize", "10.x", 1)
	if text := report(); strings.Count(text, `"resource":"fpga"`) != 2 || strings.Count(text, `"returned":true`) != 1 {
		t.Error("the report does not tell which device it gave back")
	}
	event("execjob_end", "10.x", 0)
}

// openerIn attaches a process to a job that tries to open paths each time it is asked to.
func (n *node) openerIn(job string, paths ...string) (ask func() string) {
	n.t.Helper()
	cmd := exec.Command("sh",
		append([]string{"-c", "try() { " + tryOpen + "; }; while read x; do try \"$@\"; echo done; done", "sh"},
			paths...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	must.NoError(n.t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(n.t, err)
	must.NoError(n.t, cmd.Start())
	n.t.Cleanup(func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() })
	if r := n.hookhost("attach", "-j", job, "-p", strconv.Itoa(cmd.Process.Pid)); r.status != 0 {
		n.t.Fatal("attach was rejected")
	}
	lines := bufio.NewScanner(stdout)
	return func() string {
		n.t.Helper()
		if _, err := io.WriteString(stdin, "\n"); err != nil {
			n.t.Fatal(err)
		}
		var text strings.Builder
		for lines.Scan() {
			if lines.Text() == "done" {
				return text.String()
			}
			fmt.Fprintln(&text, lines.Text())
		}
		n.t.Fatalf("it ended, having said %q: %v", text.String(), lines.Err())
		return ""
	}
}

// Doctor shows what devices there are, and whether the kernel can keep jobs from the others.
func TestDoctorShowsDevices(t *testing.T) {
	paths, config := fpgas(t, 2)
	n := newNode(t, config)
	n.serve()
	must.Eventually(t, "the devices are known", func() bool { return exists(n.path("state/devices.json")) })
	r := n.hookhost("doctor")
	for _, want := range append([]string{"device filter", "fpga=2"}, paths...) {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("doctor does not say %q", want)
		}
	}
}
