package main_test

import (
	"fmt"
	"testing"
)

// PBS_NODEFILE of a job, beside the socket, is the job's group's to read, and root's to change.
func TestJobsFilesAreItsGroupsToRead(t *testing.T) {
	n := newNode(t)
	n.open()
	n.serve()
	r := n.hookhost("run", "--report=none", "-u", "nobody", "-l", "select=1:ncpus=1:mem=64mb", "--", "sh", "-c",
		"cat $PBS_NODEFILE >/dev/null && stat -c '%a %u %g' $PBS_NODEFILE")
	if want := fmt.Sprintf("640 0 %d\n", ownerUID); r.status != 0 || r.stdout != want {
		t.Errorf("%+v, want %q", r, want)
	}
}
