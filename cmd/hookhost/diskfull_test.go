package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// disk gives a directory of the node a file system of its own, and returns its path.
func (n *node) disk(dir, size string) string {
	n.t.Helper()
	path := n.path(dir)
	must.NoError(n.t, os.MkdirAll(path, 0o700))
	must.NoError(n.t, unix.Mount("tmpfs", path, "tmpfs", 0, "mode=700,size="+size))
	n.t.Cleanup(func() { must.NoError(n.t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

// fill takes all the space that is left of a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	must.NoError(t, fillDisk(path))
}

func fillDisk(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

// The disk of the reports fills while jobs run. They end as ever, and so do a later run of the same
// job and the daemon. The log has it once. Each run has one report when there is space.
func TestFullDiskHarmsNoJobAndLosesNoReport(t *testing.T) {
	n := newNode(t)
	state := n.disk("state", "1m")
	d := n.serve()
	if r := n.hookhost("run", "--job=1.x", "--report=none", "--", "true"); r.status != 0 {
		t.Fatal("a job with space")
	}
	job := n.start("run", "--job=2.x", "--report=json", "--", "sh", "-c", "echo begins; read x; echo ends; exit 3")
	fill(t, state+"/filler")
	must.NoError(t, job.stdin.Close())
	var exited *exec.ExitError
	if err := job.wait(); !errors.As(err, &exited) || exited.ExitCode() != 3 || job.output() != "begins\nends\n" ||
		decodeReport(t, job.stderr.String()).Job != "2.x" || strings.Contains(job.stderr.String(), "hookhost:") {
		t.Errorf("the job: %v, %q, %s", err, job.output(), &job.stderr)
	}
	end := func(id, run string) {
		t.Helper()
		for _, event := range []string{"execjob_begin", "execjob_launch", "execjob_epilogue", "execjob_end"} {
			r := n.send(event, fmt.Sprintf(`{"pid":0,"job":{"id":%q,"run_count":%s,"mother_superior":true,
				"owner":{"user":"nobody","uid":%d,"gid":%d},"resource_list":{"ncpus":1,"mem":"64mb"}}}`, id, run,
				ownerUID, ownerUID))
			if r.status != 0 {
				t.Errorf("%s of job %s: status %d", event, id, r.status)
			}
		}
	}
	end("3.x", "1")
	end("3.x", "2")
	if r := n.hookhost("jobs"); r.stdout != "no jobs\n" {
		t.Errorf("jobs that are over: %s", r.stdout)
	}
	d.kill()
	d = n.serve()
	for _, id := range []string{"1.x", "2.x", "3.x"} {
		if r := n.hookhost("report", id, "--format=json"); r.status != 0 || decodeReport(t, r.stdout).Job != id {
			t.Errorf("the report of job %s while the disk is full: %+v", id, r)
		}
	}
	for _, what := range []string{"reports of finished jobs cannot be written", "no space left"} {
		if said := n.logged(what); said != 1 {
			t.Errorf("the log has %q %d times", what, said)
		}
	}
	must.Equal(t, "reports on disk meanwhile", 1, len(n.reportFiles("")))
	must.NoError(t, os.Remove(state+"/filler"))
	d.stop()
	n.serve()
	must.Eventually(t, "no report waits", func() bool { return !exists(n.path("run/reports")) })
	must.Equal(t, "reports", map[string]int{"1.x": 1, "2.x": 1, "3.x": 2}, n.reported())
}
