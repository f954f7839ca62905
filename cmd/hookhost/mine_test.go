package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// lookTwice asks twice inside a job, with the id of another job in its environment, and then for
// the job itself.
const lookTwice = `PBS_JOBID=99.x $0 jobs --mine || exit
sleep 2
$0 jobs --mine || exit
$0 jobs --mine --json`

// open lets every user at the programs and the socket.
func (n *node) open() {
	n.t.Helper()
	for _, dir := range []string{built, n.dir} {
		must.NoError(n.t, os.Chmod(dir, 0o711))
	}
}

// Inside a job, programs see their time run down.
func TestProgramsInAJobSeeTheirTimeRunDown(t *testing.T) {
	must.BesideOthers(t)
	hookhost := filepath.Join(built, "hookhost")
	countsDown := func(t *testing.T, n *node, user string) {
		n.t = t
		n.open()
		r := n.hookhost("run", "--job", "86.x", "-u", user, "-l", "walltime=01:00:00", "--report=none", "--", "sh",
			"-c", lookTwice, hookhost)
		lines := strings.SplitN(r.stdout, "\n", 3)
		if r.status != 0 || len(lines) != 3 {
			t.Fatalf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
		}
		first, err1 := strconv.Atoi(lines[0])
		second, err2 := strconv.Atoi(lines[1])
		if err1 != nil || err2 != nil || first > 3599 || second > first-2 || second < first-300 {
			t.Errorf("%q, then %q seconds left of an hour", lines[0], lines[1])
		}
		var mine listedJob
		if err := json.Unmarshal([]byte(lines[2]), &mine); err != nil {
			t.Fatalf("%q: %v", lines[2], err)
		}
		if mine.Job.ID != "86.x" || mine.Phase != "running" || mine.Limit != 3600 || mine.Left == nil ||
			*mine.Left >= float64(first) ||
			mine.Elapsed+*mine.Left < 3599.9 || mine.Elapsed+*mine.Left > 3600.1 {
			t.Errorf("the job: %+v", mine)
		}
	}
	n := newNode(t)
	countsDown(t, n, "root")
	if r := n.hookhost("run", "--job", "87.x", "--report=none", "--", hookhost, "jobs", "--mine"); r.status != 0 ||
		r.stdout != "unlimited\n" {
		t.Errorf("without a limit: %+v", r)
	}
	// The second job is looked at for its cput only, and has been by then.
	cput := enough(3)
	if r := n.hookhost("run", "--job", "87.x", "--report=none", "-l", fmt.Sprint("cput=", cput), "--", "sh", "-c",
		fmt.Sprintf("sleep %d; $0 jobs --mine", cput+1), hookhost); r.status != 0 || r.stdout != "unlimited\n" {
		t.Errorf("with a limit of cput: %+v", r)
	}
	if r := n.hookhost("jobs", "--mine"); r.status != 1 || r.stdout != "" ||
		!strings.Contains(r.stderr, "is not in a job") {
		t.Errorf("outside of jobs: %+v", r)
	}
	t.Run("another user", func(t *testing.T) {
		n := newNode(t)
		countsDown(t, n, "nobody")
		if r := n.as(strangerUID, "jobs", "--mine"); r.status != 1 || !strings.Contains(r.stderr, "is not in a job") {
			t.Errorf("outside of jobs: %+v", r)
		}
		n.endDaemon()
		if r := n.as(strangerUID, "jobs", "--mine"); r.status != 1 || !strings.Contains(r.stderr, "no daemon runs") {
			t.Errorf("%+v", r)
		}
	})
}
