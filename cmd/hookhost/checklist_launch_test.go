package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// segments splits the environment of an event where MoM does: at commas that no backslash is
// before (openpbs attr_func.c).
func segments(text string) []string {
	var list []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',':
			list, start = append(list, text[start:i]), i+1
		}
	}
	return append(list, text[start:])
}

func variable(text, name string) (value string, found bool) {
	for _, s := range segments(text) {
		if v, ok := strings.CutPrefix(s, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// Hooks may change the program, its arguments and its environment, each as the one before it has
// left them. All else stays as it was, in whatever words.
func TestChecklist15Launch(t *testing.T) {
	m := newMoM(t, "[devices]\nenabled = false\n[mpi]\nenabled = false")
	m.register("inner", "execjob_launch", 500, `wrapper = ["/usr/bin/env", "A=1"]
set_env = { NEW = "a,b\\c \"d\" 'e'\nf=g", TOLD = "inner" }
unset_env = ["GONE"]
`)
	m.register("outer", "execjob_launch", 600,
		"wrapper = [\"/usr/bin/nice\", \"-n\", \"5\"]\nset_env = { TOLD = \"inner\" }\n")
	m.serve()
	kept := []string{
		"PATH=/bin:/usr/bin", `COMMA=a\,b\,\,c`, `QUOTES=say "x" 'y' ` + "`z`", "LINES=one\ntwo", "EMPTY=",
		"EQUALS==a=b=", `BACK=C:\\dir`, "TAB=\t|\x01|", "UNICODE=ä€𝄞",
		"DOLLAR=$HOME ${x}", "BASH_FUNC_f%%=() { echo 'a b'\n}", `FORMAT=%s %d %%`, "SPACES=  two  ",
	}
	in := slices.Concat(kept[:4], []string{"GONE=1"}, kept[4:])
	j := pbsJob{id: "1501.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(j)
	k := m.fork()
	a := k.launch(j, "progname=/bin/sleep", "argv[0]=/bin/sleep", "argv[1]=2", `argv[2]=x "y" z`, `env="""`+
		strings.Join(in, ",")+`"""`)
	if !a.accepted {
		t.Fatalf("launch: %+v", a)
	}
	var argv []string
	for i := range 20 {
		if arg, found := a.set[fmt.Sprintf("argv[%d]", i)]; found {
			argv = append(argv, arg)
		}
	}
	want := []string{"/usr/bin/nice", "-n", "5", "/usr/bin/env", "A=1", "/bin/sleep", "2", `x "y" z`}
	if a.set["progname"] != want[0] || !slices.Equal(argv, want) {
		t.Errorf("progname %q, argv %q; want %q", a.set["progname"], argv, want)
	}
	out := segments(a.set["env"])
	for _, s := range kept {
		if !slices.Contains(out, s) {
			name, _, _ := strings.Cut(s, "=")
			got, _ := variable(a.set["env"], name)
			t.Errorf("%q has become %q", s, got)
		}
	}
	if v, found := variable(a.set["env"], "GONE"); found {
		t.Errorf("GONE=%s is still there", v)
	}
	if v, _ := variable(a.set["env"], "TOLD"); v != "inner" {
		t.Errorf("TOLD=%s", v)
	}
	if v, _ := variable(a.set["env"], "NEW"); v != `a\,b\\c "d" 'e'`+"\nf=g" {
		t.Errorf("NEW=%s", v)
	}
	m.end(j)

	// Nothing is started with an environment that two hooks do not agree on.
	m.register("other", "execjob_launch", 700, "set_env = { TOLD = \"other\" }\n")
	j.id = "1502.pbshost"
	m.begin(j)
	if a := m.fork().launch(j); a.accepted || !strings.Contains(a.message, "TOLD") ||
		!strings.Contains(a.message, "inner") || !strings.Contains(a.message, "other") {
		t.Errorf("two hooks set a variable to different values: %+v", a)
	}
	m.end(j)
}

// Programs are told which devices they have, in the order of the PCI addresses. No GPU is an empty
// list, not none. An attached program is told the same.
func TestChecklist16DeviceEnvironment(t *testing.T) {
	paths, config := fpgas(t, 2)
	m := newMoM(t, config)
	m.open()
	m.serve()
	j := pbsJob{id: "1601.pbshost", list: "ncpus=1,mem=32mb,fpga=1"}
	m.begin(j)
	k := m.fork()
	a := k.launch(j, "progname=/bin/sh", `env="""PATH=/bin,CUDA_VISIBLE_DEVICES=0\,1,HOME=/"""`)
	if !a.accepted {
		t.Fatalf("launch: %+v", a)
	}
	k.exec("sleep", "1000")
	if v, found := variable(a.set["env"], "CUDA_VISIBLE_DEVICES"); !found || v != "" {
		t.Errorf("CUDA_VISIBLE_DEVICES=%q, there: %v; want it empty", v, found)
	}
	if v, _ := variable(a.set["env"], "CUDA_DEVICE_ORDER"); v != "PCI_BUS_ID" {
		t.Errorf("CUDA_DEVICE_ORDER=%s", v)
	}
	mine, _ := variable(a.set["env"], "FPGA")
	if !slices.Contains(paths, mine) {
		t.Errorf("FPGA=%s, want one of %v", mine, paths)
	}
	r := m.as(ownerUID, "attach", "-s", "-j", j.id, "sh", "-c",
		`echo "${CUDA_VISIBLE_DEVICES-unset}:$CUDA_DEVICE_ORDER:$FPGA"`)
	if r.status != 0 || r.stdout != ":PCI_BUS_ID:"+mine+"\n" {
		t.Errorf("what is attached sees %+v", r)
	}
	m.end(j)
}

// No event of a job looks for devices. The program that does is given up after its time.
// A host whose devices nobody could tell is not one without devices.
func TestChecklist06NoEventOfAJobLooksForDevices(t *testing.T) {
	m := newMoM(t, "[devices]\ncdi_dir = \"\"\nprobe_timeout = \"1s\"")
	if exists(driverVersion) {
		kernfstest.Elsewhere(t, "this machine has NVIDIA's driver")
	}
	d := m.serve()
	none := pbsJob{id: "601.pbshost", chunks: "(pbshost:ncpus=1:mem=32768kb:ngpus=1)", list: "ncpus=1,mem=32mb,ngpus=1"}
	if a := m.job("execjob_begin", none); a.accepted || a.is("job._delete") || !a.is("job._rerun") ||
		!strings.Contains(a.message, "ngpus") {
		t.Errorf("a GPU on a host without any: %+v, want the job held: the server takes the host for one that has", a)
	}
	d.stop()

	program, _ := m.withNVML()
	m.daemon = m.serveBy(func(cmd *exec.Cmd) error {
		cmd.Path, cmd.Args[0] = program, program
		return startBesideDriver(cmd)
	})
	asked := func() int {
		b, _ := os.ReadFile(m.path("nvml.calls"))
		return strings.Count(string(b), " inventory\n")
	}
	j := pbsJob{id: "602.pbshost", list: "ncpus=1,mem=32mb"}
	m.begin(j)
	must.Eventually(t, "the look is given up", func() bool {
		r := m.hookhost("doctor")
		return strings.Contains(strings.Join(strings.Fields(r.stdout), " "),
			"devices: nvml ask NVML inventory: no answer within 1")
	})
	before := asked()
	if before == 0 {
		t.Error("nobody has looked")
	}
	if a := m.fork().launch(j); !a.accepted {
		t.Errorf("launch: %+v", a)
	}
	m.end(j)
	none.id = "603.pbshost"
	if a := m.job("execjob_begin", none); a.accepted || !a.is("job._rerun") ||
		!strings.Contains(a.message, "could not be found out") {
		t.Errorf("a GPU where nobody could tell whether there are some: %+v, want the job rerun", a)
	}
	if n := asked(); n != before {
		t.Errorf("NVML was asked %d times over the job's life", n-before)
	}
	m.hook(m.hostInput("exechost_periodic"))
	must.Eventually(t, "exechost_periodic looks for devices", func() bool { return asked() > before })
}
