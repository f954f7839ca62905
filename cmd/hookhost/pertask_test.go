package main_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// ranked is a rank of a program without a library. The rank waits until it has a cgroup of its
// own. Then it uses the cpu time (seconds) and memory (bytes) that it is told to.
const ranked = `
import os, sys, time
while "rank.%s\n" % os.environ["OMPI_COMM_WORLD_RANK"] not in open("/proc/self/cgroup").read(): time.sleep(0.02)
until = time.process_time() + float(sys.argv[1])
while time.process_time() < until: pass
x = bytearray(int(sys.argv[2]))
for at in range(0, len(x), 4096): x[at] = 1
`

// launcher starts three of them, as a launcher's daemon does: ARGS of each are the shell's. The
// launcher ends when the second has.
const launcher = `
rank() { OMPI_COMM_WORLD_RANK=$1 PMIX_NAMESPACE=one python3 -c "$program" "$2" "$3" & }
program=$1
rank 0 $2; zero=$!
rank 1 $3; one=$!
rank 2 $4; two=$!
wait $one; status=$?
[ $status = 0 ] || kill $zero $two
wait $zero $two
exit $status
`

// reportedRank is a rank in the report's JSON.
type reportedRank struct {
	World        string
	Rank, PID    int
	Comm         string
	CPUTSeconds  *float64 `json:"cput_seconds"`
	MemPeakBytes *int64   `json:"mem_peak_bytes"`
	OOMKills     *int64   `json:"oom_kills"`
}

// ranks are those of the report, which is of one host.
func (r result) ranks(t *testing.T) (list []reportedRank) {
	t.Helper()
	for _, h := range r.report(t).Hosts {
		list = append(list, h.Ranks...)
	}
	return list
}

func TestPerTask(t *testing.T) {
	kernfstest.NeedV1(t, "memory")
	testPerTask(t)
}

func TestPerTaskV2(t *testing.T) {
	needV2(t, "memory", "cpu")
	testPerTask(t)
}

// With per_task the report tells what each rank used, and which of them ran out of memory.
func testPerTask(t *testing.T) {
	const config = "[mpi]\nper_task = true\n" + perProcess
	n := newNode(t, config)
	r := n.hookhost("run", "--report=json", "-l", "select=1:ncpus=1:mem=400mb", "--", "sh", "-c", launcher, "sh",
		ranked, "0.2 0", "0.2 50000000", "1.5 0")
	ranks := r.ranks(t)
	if r.status != 0 || len(ranks) != 3 {
		t.Fatalf("status %d, ranks %+v", r.status, ranks)
	}
	for i, rank := range ranks {
		cput := []float64{0.2, 0.2, 1.5}[i]
		if rank.World != "one" || rank.Rank != i || rank.PID == 0 || rank.CPUTSeconds == nil ||
			*rank.CPUTSeconds < cput*0.9 {
			t.Errorf("rank %d: %+v; want %v s of cpu time", i, rank, cput)
		}
		if rank.OOMKills == nil || *rank.OOMKills != 0 {
			t.Errorf("rank %d: kills %v", i, rank.OOMKills)
		}
	}
	if peak := ranks[1].MemPeakBytes; peak != nil && (*peak < 50_000_000 || *peak > 400<<20) { // Linux 5.19 on v2
		t.Errorf("rank 1's peak is %d", *peak)
	}
	for _, h := range r.report(t).Hosts {
		if *h.CPUTSeconds < 1.9*0.9 ||
			*h.CPUTSeconds < *ranks[0].CPUTSeconds+*ranks[1].CPUTSeconds+*ranks[2].CPUTSeconds {
			t.Errorf("the job's cput is %v, of ranks %+v", *h.CPUTSeconds, ranks)
		}
	}
	t.Run("out of memory", func(t *testing.T) {
		n := newNode(t, config)
		r := loggedKill(func() result {
			return n.hookhost("run", "--report=json", "-l", "select=1:ncpus=1:mem=100mb", "--", "sh", "-c", launcher,
				"sh", ranked, "1000 0", "0 400000000", "1000 0")
		})
		if r.status != 137 {
			t.Errorf("status %d, want 137", r.status)
		}
		line := regexp.MustCompile(`(?m)^Cgroup mem limit exceeded: .*\(rank 1\)$`)
		if got := line.FindAllString(r.stderr, -1); len(got) != 1 {
			t.Errorf("stderr %q: %q, want one line that ends with (rank 1)", r.stderr, got)
		}
		if rep := r.report(t); !line.MatchString(strings.Join(rep.Notes, "\n")) {
			t.Errorf("notes %q have no %s", rep.Notes, line)
		}
		for _, rank := range r.ranks(t) {
			if want := map[int]int64{1: 1}[rank.Rank]; rank.OOMKills == nil || *rank.OOMKills != want {
				t.Errorf("kills of rank %d: %v, want %d", rank.Rank, rank.OOMKills, want)
			}
		}
	})
}
