package cgroup

import (
	"path"
	"slices"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// On v1 the kernel is made to count sockets in a job, and in a subgroup of it, before either has a
// process.
func TestSocketsAreCountedOnV1(t *testing.T) {
	w := fake{kernfstest.NewV1}
	tree := w.tree(t)
	k := w.kernel(t)
	j := newJob(t, tree, testJob, Limits{})
	must.NoError(t, j.MakeSubgroup("rank0", []byte("x")))
	var counted []string
	for _, op := range k.Journal() {
		if dir, file := path.Split(op.Path); file == socketLimit {
			counted = append(counted, path.Base(dir))
		}
	}
	if want := []string{testJob, "rank0"}; !slices.Equal(counted, want) {
		t.Errorf("counted in %q, want %q", counted, want)
	}
	endJob(t, j)
}
