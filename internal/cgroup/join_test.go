package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Join is where a job's processes belong: its v2 directory, or "" if there is none, and its v1
// tasks files. The zero Join is outside every job.
type Join struct {
	CgroupDir string
	Tasks     []string
}

// Join returns where the job's processes belong.
func (j *Job) Join() Join {
	var join Join
	for i := range j.dirs {
		if j.left(i) {
			continue
		}
		if j.dirs[i].h.v2 {
			join.CgroupDir = j.entrance(i).Path(".")
		} else {
			join.Tasks = append(join.Tasks, j.entrance(i).Path("tasks"))
		}
	}
	return join
}

// enter moves a process there.
func (join Join) enter(t testing.TB, pid int) {
	t.Helper()
	files := []string{}
	for _, tasks := range join.Tasks {
		files = append(files, filepath.Join(filepath.Dir(tasks), "cgroup.procs"))
	}
	if join.CgroupDir != "" {
		files = append(files, filepath.Join(join.CgroupDir, "cgroup.procs"))
	}
	for _, file := range files {
		must.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(pid)), 0))
	}
}
