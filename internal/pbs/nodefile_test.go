package pbs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostfileHasEachChunk(t *testing.T) {
	tests := []struct {
		name, execVnode, execHost2, schedselect string
		want                                    []HostSlots
	}{
		{name: "nothing is known", want: []HostSlots{{"here", 1, 1}}},
		{name: "not placed", schedselect: "2:ncpus=2", want: []HostSlots{{"here", 1, 2}, {"here", 1, 2}}},
		{name: "hosts", execVnode: "(n1:ncpus=2)+(n2:ncpus=2)", schedselect: "2:ncpus=2:mpiprocs=2:ompthreads=1",
			want: []HostSlots{{"n1", 2, 1}, {"n2", 2, 1}}},
		{name: "without a select", execVnode: "(n1:ncpus=2)+(n2:mem=1kb)+(n3:ncpus=0)",
			want: []HostSlots{{"n1", 1, 2}, {"n2", 1, 1}, {"n3", 0, 1}}},
		{name: "vnodes of a host", execVnode: "(n1[0]:ncpus=1+n1[1]:ncpus=1)+(n2[0]:ncpus=1)",
			schedselect: "1:ncpus=2:mpiprocs=2+1:ncpus=1",
			want:        []HostSlots{{"n1", 2, 2}, {"n2", 1, 1}}},
		{name: "names of exec_host2", execVnode: "(v1:ncpus=1)+(v2:ncpus=1)",
			execHost2: "n1.site:15002/0*2+n2.site:15002/1", schedselect: "2:ncpus=1",
			want: []HostSlots{{"n1.site", 1, 1}, {"n2.site", 1, 1}}},
		{name: "exec_host2 of another shape", execVnode: "(n1:ncpus=1)+(n2:ncpus=1)", execHost2: "n1.site:15002/0",
			want: []HostSlots{{"n1", 1, 1}, {"n2", 1, 1}}},
		{name: "exec_host2 of nonsense", execVnode: "(n1:ncpus=1)+(n2:ncpus=1)", execHost2: "a b+/0",
			want: []HostSlots{{"n1", 1, 1}, {"n2", 1, 1}}},
	}
	for _, tt := range tests {
		got, err := Hostfile(tt.execVnode, tt.execHost2, tt.schedselect, "here")
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", tt.name, err, diff)
		}
	}
	for _, bad := range [][2]string{{"(n1", ""}, {"(n1:ncpus=x)", ""}, {"", "1:ncpus="},
		{"(n1:ncpus=1)", "1:ncpus=1:mpiprocs=99999999999"}} {
		if got, err := Hostfile(bad[0], "", bad[1], "here"); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
