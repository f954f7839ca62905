package pbs

import (
	"slices"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// TestChunksHere decides which vnodes of a job are on this host, n1, where a site has named its
// vnodes itself.
func TestChunksHere(t *testing.T) {
	for _, tt := range []struct {
		name, execVnode, execHost2, node string
		head                             bool
		want                             []int
	}{
		{"the natural vnode", "(n1:ncpus=1)", "n1:15002/0", "n1", true, []int{0}},
		{"a vnode of the site's", "(blade:ncpus=1)", "n1:15002/0", "n1", true, []int{0}},
		{"with an index", "(vnode1[0]:ncpus=1)", "n1.cluster:15002/0", "n1", true, []int{0}},
		{"on a sister", "(rack:ncpus=1)+(blade:ncpus=1)", "n2:15002/0+n1.cluster:15002/0", "n1", false, []int{1}},
		{"several, and the natural one", "(n1:mem=1kb)+(n2:ncpus=1)+(blade:ncpus=1+vnode1[0]:ncpus=1)",
			"n1:15002/0+n2:15002/0+n1:15002/1", "n1", true, []int{0, 2, 3}},
		{"another host's vnode is called as this host's are", "(blade:ncpus=1)+(n1[0]:ncpus=1)",
			"n1:15002/0+n2:15002/0", "n1", true, []int{0}},
		{"after a release", "(blade:ncpus=1)", "n1:15002/0*2", "n1", true, []int{0}},
		{"pbs_mom has another name", "(alias[0]:ncpus=1)+(alias:ncpus=1)+(blade:ncpus=1)+(n2:ncpus=1)",
			"host7:15002/0+host7:15002/1+host7:15002/2+n2:15002/0", "alias", false, []int{0, 1, 2}},
		{"and the vnodes, too, on the head", "(blade:ncpus=1)+(rack:ncpus=1)", "host7:15002/0+host8:15002/0", "alias",
			true, []int{0}},
		{"and on a sister", "(blade:ncpus=1)+(rack:ncpus=1)", "host7:15002/0+host8:15002/0", "alias", false, nil},
		{"and on the only host", "(blade:ncpus=1)+(rack:ncpus=1)", "host7:15002/0+host7:15002/1", "alias", false,
			[]int{0, 1}},
		{"two pbs_moms of one machine", "(a:ncpus=1)+(b:ncpus=1)", "n1:15002/0+n1:17002/0", "b", false, []int{1}},
		{"no exec_host2", "(blade:ncpus=1)", "", "n1", true, nil},
		{"exec_host2 of other chunks", "(blade:ncpus=1)+(n1:ncpus=1)", "n1:15002/0", "n1", true, []int{1}},
		{"exec_host2 that is none", "(n1:ncpus=1)", "n1 /0", "n1", true, []int{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chunks, err := JobChunks(tt.execVnode, tt.execHost2)
			must.NoError(t, err)
			if got := ChunksHere(chunks, tt.node, tt.head); !slices.Equal(got, tt.want) {
				t.Errorf("chunks %v, want %v, of %+v", got, tt.want, chunks)
			}
		})
	}
}
