package main_test

import (
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// rank is a line of the program.
type rank struct{ host, job, cgroups string }

// ranks reads the program's lines, which has a rank on each of so many hosts; a line of another
// kind is an error.
func ranks(t testing.TB, text string, hosts int) map[int]rank {
	t.Helper()
	all := map[int]rank{}
	for line := range strings.Lines(text) {
		f := map[string]string{}
		for _, word := range strings.Fields(line) {
			name, value, _ := strings.Cut(word, "=")
			f[name] = value
		}
		n, err := strconv.Atoi(f["rank"])
		if err != nil {
			t.Errorf("output: %q", line)
			continue
		}
		if f["size"] != strconv.Itoa(hosts) {
			t.Errorf("rank %d is in a world of %s", n, f["size"])
		}
		all[n] = rank{f["host"], f["job"], strings.ReplaceAll(f["cgroups"], ";", "\n")}
	}
	return all
}

// A job of `hookhost run` is on one host, where a launcher needs no remote shell.
func TestMPIRanksOfARunAreInItsJob(t *testing.T) {
	if inGuest() {
		kernfstest.Elsewhere(t, "MPI: this machine's kernel tests have it")
	}
	for _, name := range []string{"mpirun.openmpi", "mpiexec.mpich"} {
		t.Run(name, func(t *testing.T) {
			kind := strings.TrimPrefix(filepath.Ext(name), ".")
			for _, program := range []string{"/usr/bin/" + name, "/usr/bin/mpicc." + kind} {
				if !exists(program) {
					kernfstest.Skip(t, "needs %s: scripts/need mpi", program)
				}
			}
			n := newNode(t)
			where := n.path("where")
			compiler := exec.Command("mpicc."+kind, "-o", where, "../../testdata/mpi/where.c")
			if out, err := compiler.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			r := n.hookhost("run", "--job", "7.mpi", "--report=none", "-l", "select=1:ncpus=2:mpiprocs=2:mem=200mb",
				"--", "env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", name, "-n", "2", where)
			all := ranks(t, r.stdout, 2)
			if r.status != 0 || len(all) != 2 {
				t.Errorf("status %d, %d ranks", r.status, len(all))
			}
			for i, rank := range all {
				if dir := cgroupOf(rank.cgroups, "memory"); rank.job != "7.mpi" || path.Base(dir) != "7.mpi" {
					t.Errorf("rank %d: job %s, in %s", i, rank.job, dir)
				}
			}
		})
	}
}
