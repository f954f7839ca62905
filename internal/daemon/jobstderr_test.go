package daemon

import (
	"os"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Lines for a job's standard error go where qsub -j has it, and only on the mother superior.
func TestLinesForAJobGoToTheFileOfItsStandardError(t *testing.T) {
	kernfstest.NeedRoot(t) // the file is opened as its owner
	dir := t.TempDir()
	store, err := jobstate.Open(dir+"/jobs", func(err error) { t.Error(err) })
	must.NoError(t, err)
	m := &pbsMoM{store: store}
	for _, tt := range []struct {
		name, joinPath string
		superior       bool
		out, err       string // what the files have then
	}{
		{"apart", "n", true, "before\n", "before\nkilled\n"},
		{"joined into standard output", "oe", true, "before\nkilled\n", "before\n"},
		{"joined into standard error", "eo", true, "before\n", "before\nkilled\n"},
		{"on a sister", "n", false, "before\n", "before\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := &hostapi.Job{ID: "1.srv", JoinPath: tt.joinPath, MotherSuperior: tt.superior,
				Owner:      hostapi.Owner{User: "owner", UID: os.Getuid(), GID: os.Getgid()},
				StdoutFile: dir + "/1.srv.OU", StderrFile: dir + "/1.srv.ER"}
			for _, file := range []string{job.StdoutFile, job.StderrFile} {
				must.NoError(t, os.WriteFile(file, []byte("before\n"), 0o600))
			}
			must.NoError(t, m.appendStderr(job, []string{"killed"}))
			for file, want := range map[string]string{job.StdoutFile: tt.out, job.StderrFile: tt.err} {
				got, err := os.ReadFile(file)
				must.NoError(t, err)
				must.Equal(t, file, want, string(got))
			}
		})
	}
}
