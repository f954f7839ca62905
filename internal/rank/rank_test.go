package rank

import (
	"strings"
	"testing"
)

func TestRankIsThatOfTheLauncher(t *testing.T) {
	none := Key{}
	tests := []struct {
		name    string
		environ []string
		want    Key
		ok      bool
	}{
		{"nothing", nil, none, false},
		{"Open MPI 4", []string{"HOME=/", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3",
			"OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_NAMESPACE=423231489", "PMIX_RANK=3"}, Key{"423231489", 3}, true},
		{"its daemon", []string{"OMPI_MCA_ess_base_vpid=1", "OMPI_COMM_WORLD_SIZE=4", "PBS_JOBID=7"}, none, false},
		{"PMIx alone", []string{"PMIX_NAMESPACE=prterun-n1-123@1", "PMIX_RANK=0"}, Key{"prterun-n1-123@1", 0}, true},
		{"MPICH 4", []string{"PMI_RANK=2", "PMI_FD=7", "PMI_SIZE=6", "MPI_LOCALNRANKS=2", "MPI_LOCALRANKID=0"},
			Key{"", 2}, true},
		{"a variable without a name", []string{"PMI_RANK=2", "=x"}, Key{"", 2}, true},
		{"MVAPICH", []string{"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_LOCAL_RANK=1", "MV2_COMM_WORLD_SIZE=2"},
			Key{"", 1}, true},
		{"PALS", []string{"PALS_RANKID=5", "PALS_APID=abc", "PALS_LOCAL_RANKID=1"}, Key{"abc", 5}, true},
		{"PMI-1", []string{"PMI_ID=9"}, Key{"", 9}, true},
		{"PMI before PMI-1", []string{"PMI_ID=9", "PMI_RANK=1"}, Key{"", 1}, true},
		{"Open MPI in another's rank", []string{"PMI_RANK=7", "OMPI_COMM_WORLD_RANK=0", "PMIX_NAMESPACE=w"},
			Key{"w", 0}, true},
		{"the first of two", []string{"PMI_RANK=1", "PMI_RANK=2"}, Key{"", 1}, true},
		{"not a number", []string{"PMI_RANK=one"}, none, false},
		{"a number and more", []string{"PMI_RANK=1 "}, none, false},
		{"negative", []string{"PMI_RANK=-1"}, none, false},
		{"empty", []string{"PMI_RANK="}, none, false},
		{"huge", []string{"PMI_RANK=99999999999999999999"}, none, false},
		{"too large to be meant", []string{"PMI_RANK=16777217"}, none, false},
		{"the next family, where one is broken", []string{"OMPI_COMM_WORLD_RANK=x", "PMI_RANK=4"}, Key{"", 4}, true},
		{"in another's name", []string{"XPMI_RANK=1", "PMI_RANKS=1", "A=PMI_RANK=1"}, none, false},
		{"a name with a newline", []string{"PMIX_NAMESPACE=a\nb", "PMIX_RANK=0"}, Key{"", 0}, true},
		{"a name that is too long", []string{"PMIX_NAMESPACE=" + strings.Repeat("x", 65), "PMIX_RANK=0"},
			Key{"", 0}, true},
		{"no variable at all", []string{"PMI_RANK"}, none, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, end := range []string{"\x00", ""} {
				got, ok := Of([]byte(strings.Join(tt.environ, "\x00") + end))
				if got != tt.want || ok != tt.ok {
					t.Errorf("%+v %v, want %+v %v", got, ok, tt.want, tt.ok)
				}
			}
		})
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte("PMI_RANK=1\x00PMI_SIZE=2\x00"))
	f.Add([]byte("\x00=\x00OMPI_COMM_WORLD_RANK=\x00"))
	f.Fuzz(func(t *testing.T, environ []byte) {
		r, ok := Of(environ)
		if !ok && r != (Key{}) ||
			ok && (r.Rank < 0 || r.Rank > maxRank || len(r.World) > maxWorld) {
			t.Errorf("%+v, %v", r, ok)
		}
	})
}
