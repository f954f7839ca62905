package mom

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

func TestJobEnv(t *testing.T) {
	inherited := map[string]string{"HOME": "/home/u", "PATH": "/bin", "OMP_NUM_THREADS": "99", "EDITOR": "vi"}
	base := map[string]string{
		"ENVIRONMENT": "BATCH", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": "12.srv", "PBS_NODENUM": "0",
		"PBS_TASKNUM": "1",
		"PBS_JOBDIR":  "/work", "PBS_O_WORKDIR": "/work", "PBS_O_HOST": "n1", "PBS_O_SYSTEM": "Linux",
		"PBS_O_HOME": "/home/u", "PBS_O_PATH": "/bin",
		"NCPUS": "1", "OMP_NUM_THREADS": "1",
	}
	with := func(change map[string]string) map[string]string {
		env := map[string]string{}
		for _, m := range []map[string]string{base, change} {
			for k, v := range m {
				env[k] = v
			}
		}
		return env
	}
	tests := []struct {
		name string
		job  hostapi.Job
		want map[string]string
		bad  bool
	}{
		{name: "bare", job: hostapi.Job{ID: "12.srv"}, want: base},
		{
			name: "named", job: hostapi.Job{ID: "12.srv", Name: "solve", Queue: "workq", Account: "chem"},
			want: with(map[string]string{"PBS_JOBNAME": "solve", "PBS_QUEUE": "workq", "PBS_O_QUEUE": "workq",
				"PBS_ACCOUNT": "chem"}),
		},
		{
			name: "subjob", job: hostapi.Job{ID: "95[7].srv"},
			want: with(map[string]string{"PBS_JOBID": "95[7].srv", "PBS_ARRAY_ID": "95[].srv", "PBS_ARRAY_INDEX": "7"}),
		},
		{name: "cpus", job: hostapi.Job{ID: "12.srv", ExecVnode: "(n1:ncpus=4:mem=10kb)"},
			want: with(map[string]string{"NCPUS": "4", "OMP_NUM_THREADS": "4"})},
		{
			name: "threads", job: hostapi.Job{ID: "12.srv", Schedselect: "1:ncpus=4:ompthreads=2",
				ExecVnode: "(n1:ncpus=4)"},
			want: with(map[string]string{"NCPUS": "2", "OMP_NUM_THREADS": "2"}),
		},
		{name: "no cpus", job: hostapi.Job{ID: "12.srv", ExecVnode: "(n1:ncpus=0)"}, want: base},
		{name: "bad exec_vnode", job: hostapi.Job{ID: "12.srv", ExecVnode: "(n1"}, bad: true},
		{name: "bad cpus", job: hostapi.Job{ID: "12.srv", ExecVnode: "(n1:ncpus=banana)"}, bad: true},
		{name: "bad select", job: hostapi.Job{ID: "12.srv", Schedselect: "1:ncpus="}, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jobEnv(&tt.job, "n1", "/work", inherited)
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %v", err, tt.bad)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" && !tt.bad {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodefileHasALineForEachRank(t *testing.T) {
	tests := []struct {
		name string
		job  hostapi.Job
		want string
	}{
		{name: "bare", want: "n1"},
		{name: "one chunk", job: hostapi.Job{Schedselect: "1:ncpus=4", ExecVnode: "(n1:ncpus=4)"}, want: "n1"},
		{name: "ranks", job: hostapi.Job{Schedselect: "2:ncpus=4:mpiprocs=2+1:ncpus=1",
			ExecVnode: "(n1:ncpus=4)+(n2:ncpus=4)+(n1:ncpus=1)"}, want: "n1 n1 n2 n2 n1"},
		{name: "vnodes of one host", job: hostapi.Job{Schedselect: "1:ncpus=4:mpiprocs=2",
			ExecVnode: "(n1[0]:ncpus=2+n1[1]:ncpus=2)"}, want: "n1 n1"},
		{name: "not placed yet", job: hostapi.Job{Schedselect: "2:ncpus=1"}, want: "n1 n1"},
		{name: "a chunk without cpus has no rank",
			job: hostapi.Job{Schedselect: "1:ncpus=1+1:ncpus=0", ExecVnode: "(n1:ncpus=1)+(n1:ncpus=0)"}, want: "n1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := shell(`stat -c %a "$PBS_NODEFILE"; cat "$PBS_NODEFILE"`)
			spec.AuxDir = filepath.Join(t.TempDir(), "aux")
			job := tt.job
			job.ID = "12.srv"
			spec.Job = &job
			got, _, err := outputOf(t, &recorder{}, spec)
			mode, hosts, _ := strings.Cut(got, "\n")
			if err != nil || mode != "640" || strings.Join(strings.Fields(hosts), " ") != tt.want {
				t.Errorf("node file %q, %v; want 640 and %q", got, err, tt.want)
			}
			if left, err := os.ReadDir(spec.AuxDir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
