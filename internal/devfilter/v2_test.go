package devfilter

import (
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/must"
)

func openDir(t testing.TB, path string) *os.File {
	t.Helper()
	dir, err := os.Open(path)
	must.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	return dir
}

// oursOn returns the programs of ours on a cgroup.
func oursOn(t testing.TB, p Place) []ebpf.ProgramID {
	t.Helper()
	list, err := ours(openDir(t, p.V2))
	must.NoError(t, err)
	defer list.close()
	return list.ids()
}

// attachAs attaches a program to a cgroup behind the back of Install.
func attachAs(t testing.TB, p Place, name string, insns asm.Instructions) *ebpf.Program {
	t.Helper()
	s := spec(insns)
	s.Name = name
	prog, err := newProgram(s)
	must.NoError(t, err)
	t.Cleanup(func() { prog.Close() })
	must.NoError(t, link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(openDir(t, p.V2).Fd()), Program: prog, Attach: ebpf.AttachCGroupDevice,
		Flags: unix.BPF_F_ALLOW_MULTI,
	}))
	return prog
}

// newProgram is ebpf.NewProgram with the locked memory that it takes before Linux 5.11.
func newProgram(s *ebpf.ProgramSpec) (p *ebpf.Program, err error) {
	err = withMemlock(countsLocked(), func() (err error) {
		p, err = ebpf.NewProgram(s)
		return err
	})
	return p, err
}

// systemd attaches a program of its own, called sd_devices, to the units it manages.
func TestForeignProgramStays(t *testing.T) {
	w := worldV2(t)
	p, dir := w.job(t)
	foreign := attachAs(t, p, "sd_devices", Compile(mustRules(t, "c 1:3 rw", "c 1:5 rw")))
	for _, rules := range [][]string{{"c 1:3 rw", "c 1:7 rw"}, {"c 1:3 rw"}, {}, {"c 1:3 rw", "c 1:5 r", "c 1:7 r"}} {
		mustInstall(t, p, rules...)
		if err := InForce(p, mustRules(t, rules...)); err != nil {
			t.Error(err)
		}
	}
	a, n := member(t, dir), newNodes(t)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, opens)
	expect(t, a, n, devrule.Char, 1, 7, unix.O_RDONLY, denied) // by the other one
	q, err := link.QueryPrograms(link.QueryOptions{Target: int(openDir(t, p.V2).Fd()), Attach: ebpf.AttachCGroupDevice})
	must.NoError(t, err)
	info, err := foreign.Info()
	must.NoError(t, err)
	id, _ := info.ID()
	if len(q.Programs) != 2 || q.Programs[0].ID != id {
		t.Errorf("attached are %v, want program %d and one of ours", q.Programs, id)
	}
}

// A kernel without BPF_F_REPLACE, and a death between attaching the new program and detaching the
// old one, leave two.
func TestTwoProgramsBecomeOne(t *testing.T) {
	w := worldV2(t)
	for _, replace := range []bool{true, false} {
		for _, same := range []bool{true, false} {
			p, dir := w.job(t)
			attachAs(t, p, programName, Compile(mustRules(t, "c 1:3 rw")))
			attachAs(t, p, programName, Compile(mustRules(t, "c 1:3 rw", "c 1:5 rw")))
			attachAs(t, p, programName, Compile(nil))
			rules := mustRules(t, "c 1:3 rw", "c 1:5 rw")
			if !same {
				rules = mustRules(t, "c 1:5 rw")
			}
			if err := InForce(p, rules); err == nil {
				t.Error("in force, though there are three programs")
			}
			must.NoError(t, install(p, rules, replace))
			if got := len(oursOn(t, p)); got != 1 {
				t.Errorf("replace %v: %d programs of ours, want 1", replace, got)
			}
			if err := InForce(p, rules); err != nil {
				t.Error(err)
			}
			a, n := member(t, dir), newNodes(t)
			expect(t, a, n, devrule.Char, 1, 5, unix.O_RDWR, opens)
			expect(t, a, n, devrule.Char, 1, 7, unix.O_RDWR, denied)
		}
	}
}

// A program that forbids others (attached without BPF_F_ALLOW_MULTI) makes Install fail, not go
// without a filter.
func TestExclusiveProgramIsAnError(t *testing.T) {
	w := worldV2(t)
	p, _ := w.job(t)
	s := spec(Compile(nil))
	s.Name = "other"
	prog, err := newProgram(s)
	must.NoError(t, err)
	defer prog.Close()
	must.NoError(t, link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(openDir(t, p.V2).Fd()), Program: prog, Attach: ebpf.AttachCGroupDevice,
	}))
	err = Install(p, mustRules(t, "c 1:3 rw"))
	if err == nil || !strings.Contains(err.Error(), p.V2) {
		t.Errorf("install: %v, want an error that names %s", err, p.V2)
	}
}

func TestVerifierLogIsInTheError(t *testing.T) {
	worldV2(t)
	_, err := load(asm.Instructions{
		asm.LoadMem(asm.R0, asm.R1, 12, asm.Word), // behind the end of the context
		asm.Return(),
	})
	if err == nil || !strings.Contains(err.Error(), "invalid bpf_context access") {
		t.Errorf("load of a program that reads too far: %v, want the verifier's words", err)
	}
}

func TestProbeWithoutRights(t *testing.T) {
	worldV2(t)
	got := startActor(t).do(order{Do: "probe without rights"}).Text
	want := "load device filter: operation not permitted: it takes CAP_SYS_ADMIN, and before Linux 5.11 locked " +
		"memory (RLIMIT_MEMLOCK)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A name that cilium/ebpf has left out makes Install fail before anything is attached.
func TestProgramWithoutNameIsRefused(t *testing.T) {
	worldV2(t)
	s := spec(Compile(nil))
	s.Name = ""
	p, err := newProgram(s)
	must.NoError(t, err)
	defer p.Close()
	if _, err := identify(p); err == nil || !strings.Contains(err.Error(), programName) {
		t.Errorf("got %v, want an error with %s", err, programName)
	}
}

func TestMemlockIsPutBack(t *testing.T) {
	var before, inside, after unix.Rlimit
	get := func(l *unix.Rlimit) {
		must.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, l))
	}
	get(&before)
	must.NoError(t, withMemlock(true, func() error { get(&inside); return nil }))
	get(&after)
	if inside.Cur < before.Max || after != before {
		t.Errorf("RLIMIT_MEMLOCK was %+v, inside %+v, afterwards %+v", before, inside, after)
	}
}
