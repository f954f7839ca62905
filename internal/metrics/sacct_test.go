package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// sacct returns what packaging's sacct prints, with a qstat that prints a file's text.
func sacct(t *testing.T, file string, args ...string) string {
	t.Helper()
	text, err := filepath.Abs(file)
	must.NoError(t, err)
	dir := t.TempDir()
	qstat := "#!/bin/sh\necho \"qstat $*\" >" + dir + "/called\ncat " + text + "\n"
	must.NoError(t, os.WriteFile(filepath.Join(dir, "qstat"), []byte(qstat), 0o755))
	cmd := exec.Command("../../packaging/jobstats/sacct", args...)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "TZ=UTC"}
	out, err := cmd.Output()
	must.NoError(t, err)
	if len(args) > 1 {
		called, err := os.ReadFile(filepath.Join(dir, "called"))
		must.NoError(t, err)
		must.Equal(t, "the call", "qstat -xf -F json 12\n", string(called))
	}
	return string(out)
}

// jobstats asks in this way (jobstats.py). It reads the version's first number.
func TestSacctAnswersJobstatsWithWhatPBSKnows(t *testing.T) {
	must.Equal(t, "the version", "slurm 25.05.0\n", sacct(t, os.DevNull, "-V"))
	args := []string{"-P", "-X", "-o", "jobidraw,start,end,cluster,alloctres,admincomment,user,account,state," +
		"nnodes,ncpus,reqmem,qos,partition,timelimitraw,jobname", "-j", "12"}
	golden, err := os.ReadFile("testdata/sacct.golden")
	must.NoError(t, err)
	must.Equal(t, "the answer", string(golden), sacct(t, "testdata/qstat.json", args...))
	if out := sacct(t, "testdata/qstat.json", append(args, "-M", "della")...); !strings.Contains(out, "|della|") {
		t.Errorf("another cluster is not passed on: %s", out)
	}
	if out := sacct(t, os.DevNull, args...); strings.Count(out, "\n") != 1 {
		t.Errorf("a job that PBS does not know: %s", out)
	}
}
