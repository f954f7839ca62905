package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/must"
)

// built holds the program and the stub libraries, new.so and old.so.
var built string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "hookhost-nvml")
		if err == nil {
			defer os.RemoveAll(dir)
			built, err = dir, build(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func build(dir string) error {
	if _, err := exec.LookPath("gcc"); err != nil {
		return errors.New("gcc is needed for the program that asks NVML " +
			"and for the library that stands in for NVML in its tests: " +
			"apt-get install gcc libc6-dev, or what your system calls them")
	}
	const source = "../../testdata/nvml/stub.c"
	lib := []string{"-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC", source, "-ldl", "-o"}
	for _, cmd := range []*exec.Cmd{
		exec.Command("go", "build", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", dir+"/nvml", "."),
		exec.Command("gcc", append(lib, dir+"/new.so")...),
		exec.Command("gcc", append(append([]string{"-DOLD"}, lib...), dir+"/old.so")...),
	} {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
	}
	return nil
}

// stub puts a stub into a folder of its own, with the modes of its "mode" file.
func stub(t *testing.T, file, modes string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	must.NoError(t, errors.Join(os.Symlink(filepath.Join(built, file), path),
		os.WriteFile(filepath.Join(filepath.Dir(path), "mode"), []byte(modes), 0o644)))
	return path
}

// program runs the program with an empty environment, as AskNVML does.
func program(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, complaint strings.Builder
	cmd := exec.Command(filepath.Join(built, "nvml"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{}, &out, &complaint
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), complaint.String(), cmd.ProcessState.ExitCode()
}

func decoded[A any](t *testing.T, path string, args ...string) (a A) {
	t.Helper()
	out, complaint, status := program(t, append([]string{"--library", path}, args...)...)
	if status != 0 || complaint != "" {
		t.Fatalf("nvml %v: status %d, standard error %q", args, status, complaint)
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("nvml %v printed %q: %v", args, out, err)
	}
	return a
}

func uuid(i int) string { return fmt.Sprintf("GPU-00000000-0000-0000-0000-00000000000%d", i) }

// wanted is the machine of the stub.
func wanted() *inventory.NVIDIA {
	n := &inventory.NVIDIA{Driver: "550.54.15"}
	pci := []string{"0000:07:00.0", "0000:0f:00.0", "0000:47:00.0", "0000:4e:00.0", "0000:87:00.0", "0000:90:00.0",
		"0000:b7:00.0", "0000:bd:00.0"}
	for i, minor := range []uint32{2, 3, 0, 1, 6, 7, 4, 5} {
		n.GPUs = append(n.GPUs, inventory.NVIDIAGPU{UUID: uuid(i), Model: "NVIDIA A100-SXM4-40GB", PCI: pci[i],
			Minor: minor, Memory: 40 << 30,
			Links: map[string]int{uuid(i ^ 1): 2}, NVSwitch: 9})
	}
	mig := &n.GPUs[7]
	mig.MIG, mig.Links, mig.NVSwitch = true, nil, 0
	mig.Instances = []inventory.MIGInstance{
		{UUID: "MIG-00000000-0000-0000-0000-000000000071", Model: "NVIDIA A100-SXM4-40GB MIG 3g.20gb", Memory: 20 << 30,
			GI: 1},
		{UUID: "MIG-00000000-0000-0000-0000-000000000075", Model: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", Memory: 5 << 30,
			GI: 5},
	}
	return n
}

func TestInventoryIsWhatNVMLAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, file, modes string
		want              func(n *inventory.NVIDIA)
	}{
		{"eight GPUs, one in MIG mode", "new.so", "", func(n *inventory.NVIDIA) {}},
		{"no GPU is an answer", "new.so", "empty", func(n *inventory.NVIDIA) { n.GPUs = []inventory.NVIDIAGPU{} }},
		{"a GPU off the bus leaves the others", "new.so", "lost", func(n *inventory.NVIDIA) {
			n.GPUs[3] = inventory.NVIDIAGPU{UUID: uuid(3), Model: "NVIDIA A100-SXM4-40GB",
				Error: "read UUID: GPU is lost"}
			n.GPUs[2].Links = nil
		}},
		{"a GPU that does not open leaves the others", "new.so", "closed", func(n *inventory.NVIDIA) {
			n.GPUs[5] = inventory.NVIDIAGPU{Error: "open GPU 5: Insufficient Permissions"}
			n.GPUs[4].Links = nil
		}},
		{"a driver without MIG and types of links", "old.so", "", func(n *inventory.NVIDIA) {
			for i := range n.GPUs {
				n.GPUs[i].NVSwitch = 0
			}
			n.GPUs[7].MIG, n.GPUs[7].Instances = false, nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := wanted()
			tt.want(want)
			got := decoded[*inventory.NVIDIA](t, stub(t, tt.file, tt.modes), "inventory")
			must.Equal(t, "inventory", want, got)
		})
	}
}

func ptr[V any](v V) *V { return &v }

func TestUsageIsWhatNVMLCounted(t *testing.T) {
	processes := []inventory.NVIDIAProcess{
		{PID: 1000, StartMicros: 1700000000000000, Milliseconds: 90000, GPUPercent: ptr[uint32](87),
			MemPeakBytes: ptr[uint64](3 << 30)},
		{PID: 1001, StartMicros: 1700000100000000, Running: true},
	}
	const mig = "MIG-00000000-0000-0000-0000-000000000071"
	for _, tt := range []struct {
		name, file, modes string
		want              map[string]inventory.NVIDIACounters
	}{
		{"energy and processes", "new.so", "", map[string]inventory.NVIDIACounters{
			uuid(0): {EnergyMillijoules: ptr[uint64](5000000), Processes: processes},
			uuid(1): {EnergyMillijoules: ptr[uint64](5000001)},
			uuid(7): {EnergyMillijoules: ptr[uint64](5000007)},
			mig:     {},
		}},
		{"what is not there is an error of its own", "new.so", "lost", map[string]inventory.NVIDIACounters{
			uuid(1):    {EnergyMillijoules: ptr[uint64](5000001)},
			uuid(3):    {Error: "open " + uuid(3) + ": GPU is lost"},
			"GPU-gone": {Error: "open GPU-gone: Not Found"},
		}},
		{"a driver without energy", "old.so", "", map[string]inventory.NVIDIACounters{uuid(0): {Processes: processes}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"usage"}
			for uuid := range tt.want {
				args = append(args, uuid)
			}
			got := decoded[inventory.NVIDIAUsage](t, stub(t, tt.file, tt.modes), args...)
			must.Equal(t, "usage", tt.want, got.Devices)
		})
	}
}

func TestSampleIsWhatDevicesDo(t *testing.T) {
	const mig = "MIG-00000000-0000-0000-0000-000000000075"
	sample := func(i int, percent float64) inventory.NVIDIASample {
		memory, energy, power := uint64(i+1)<<29, uint64(5_000_000+i), uint32(250_000+i)
		s := inventory.NVIDIASample{MemBytes: &memory, EnergyMillijoules: &energy, PowerMilliwatts: &power}
		if percent > 0 {
			s.GPUPercent = &percent
		}
		return s
	}
	old := sample(0, 0)
	old.EnergyMillijoules = nil
	for _, tt := range []struct {
		name, file, modes, since string
		want                     map[string]inventory.NVIDIASample
	}{
		{"two GPUs and an instance", "new.so", "", "0", map[string]inventory.NVIDIASample{
			uuid(0): sample(0, 50), uuid(1): sample(1, 0), mig: {MemBytes: sample(7, 0).MemBytes}}},
		{"since a sample", "new.so", "", "1000", map[string]inventory.NVIDIASample{uuid(0): sample(0, 65)}},
		{"none since", "new.so", "", "3000", map[string]inventory.NVIDIASample{uuid(0): sample(0, 0)}},
		{"a lost GPU", "new.so", "lost", "0", map[string]inventory.NVIDIASample{
			uuid(3): {Error: "open " + uuid(3) + ": GPU is lost"}, uuid(0): sample(0, 50)}},
		{"an old driver", "old.so", "", "0", map[string]inventory.NVIDIASample{uuid(0): old}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"sample", tt.since}
			for uuid := range tt.want {
				args = append(args, uuid)
			}
			got := decoded[inventory.NVIDIASamples](t, stub(t, tt.file, tt.modes), args...)
			must.Equal(t, "sample", tt.want, got.Devices)
		})
	}
}

func TestAccountOn(t *testing.T) {
	path := stub(t, "new.so", "lost")
	_, complaint, status := program(t, "--library", path, "account", "on")
	if want := "nvml: account on GPU 3: GPU is lost\n"; status != 1 || complaint != want {
		t.Errorf("status %d, standard error %q, want 1, %q", status, complaint, want)
	}
	set, err := os.ReadFile(filepath.Join(filepath.Dir(path), "accounting"))
	if want := "0 1\n1 1\n2 1\n3 1\n4 1\n5 1\n6 1\n"; err != nil || string(set) != want {
		t.Errorf("set %q, %v, want %q", set, err, want)
	}
	if out, complaint, status := program(t, "--library", stub(t, "new.so", ""), "account", "on"); status != 0 ||
		out+complaint != "" {
		t.Errorf("with all GPUs: status %d, %q, %q, want 0 and nothing", status, out, complaint)
	}
}

func TestStatusAndComplaintOfFailures(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must.NoError(t, os.WriteFile(text, []byte("no library\n"), 0o644))
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		want   string // in standard error
	}{
		{"no library", []string{"--library", "/nonexistent/libnvidia-ml.so.1", "inventory"}, 3,
			"nvml: no NVML here: /nonexistent/libnvidia-ml.so.1: cannot open"},
		{"no shared object", []string{"--library", text, "inventory"}, 3, "nvml: no NVML here: " + text},
		{"no driver", []string{"--library", stub(t, "new.so", "unloaded"), "inventory"}, 3, "Driver Not Loaded"},
		{"another library", []string{"--library", "libc.so.6", "inventory"}, 1,
			"load libc.so.6: it has no nvmlInit_v2: it is not NVML, or too old"},
		{"it does not initialise", []string{"--library", stub(t, "new.so", "fail"), "inventory"}, 1,
			"Driver/library version mismatch"},
		{"it hangs", []string{"--limit", "100ms", "--library", stub(t, "new.so", "hang"), "inventory"}, 1,
			"nvml: no answer within 100ms\n"},
		{"no rights", []string{"--library", stub(t, "new.so", "root"), "account", "on"}, 1,
			"account on GPU 0: Insufficient Permissions account on GPU 1"},
		{"no command", nil, 2, "inventory, usage, sample or account"},
		{"unknown command", []string{"account", "off"}, 2, `what is "account off"?`},
		{"sample of nothing", []string{"sample", "0"}, 2, "give microseconds and UUIDs"},
		{"sample since nothing", []string{"sample", "x", "y"}, 2, "no microseconds"},
		{"usage of nothing", []string{"usage"}, 2, "give UUIDs"},
		{"unknown option", []string{"--gpu", "inventory"}, 2, "-gpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, complaint, status := program(t, tt.args...)
			if out != "" || status != tt.status || !strings.Contains(complaint, tt.want) {
				t.Errorf("status %d, %q, standard error %q, want %d, nothing, %q", status, out, complaint, tt.status,
					tt.want)
			}
			if status != 2 && strings.Count(complaint, "\n") != 1 {
				t.Errorf("standard error %q, want one line", complaint)
			}
		})
	}
	out, complaint, status := program(t, "--help")
	if status != 0 || complaint != "" || out != help {
		t.Errorf("--help: status %d, %q, standard error %q", status, out, complaint)
	}
}

// asking gives a program that AskNVML can run: this one, with a stub.
func asking(t *testing.T, path string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nvml")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' --library '%s' \"$@\"\n", filepath.Join(built, "nvml"), path)
	must.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	return program
}

// leavesNoGoroutine returns a check that no goroutine runs that does not run now. It waits for a
// minute, goleak alone for half a second.
func leavesNoGoroutine(t *testing.T) (check func()) {
	now := goleak.IgnoreCurrent()
	return func() {
		for end := time.Now().Add(time.Minute); goleak.Find(now) != nil && time.Now().Before(end); {
		}
		goleak.VerifyNone(t, now)
	}
}

func TestProgramAnswersTheInventory(t *testing.T) {
	defer leavesNoGoroutine(t)()
	program := asking(t, stub(t, "new.so", ""))
	got, err := inventory.AskNVML(t.Context(), program, time.Minute)
	if d := cmp.Diff(wanted(), got); err != nil || d != "" {
		t.Errorf("AskNVML: %v (-want +got):\n%s", err, d)
	}
	usage, err := inventory.AskNVMLUsage(t.Context(), program, time.Minute, uuid(1))
	counters := inventory.NVIDIACounters{EnergyMillijoules: ptr[uint64](5000001)}
	want := &inventory.NVIDIAUsage{Devices: map[string]inventory.NVIDIACounters{uuid(1): counters}}
	if d := cmp.Diff(want, usage); err != nil || d != "" {
		t.Errorf("AskNVMLUsage: %v (-want +got):\n%s", err, d)
	}
	if err := inventory.NVMLAccountingOn(t.Context(), program, time.Minute); err != nil {
		t.Errorf("NVMLAccountingOn: %v", err)
	}
	if _, err := inventory.AskNVML(t.Context(), asking(t, "/nonexistent/libnvidia-ml.so.1"),
		time.Minute); !errors.Is(err, inventory.ErrNoNVML) {
		t.Errorf("AskNVML without a library: %v, want ErrNoNVML", err)
	}
}

// A driver call that does not return costs its caller the limit, and nothing stays behind.
func TestAskedAndHangs(t *testing.T) {
	defer leavesNoGoroutine(t)()
	path := stub(t, "new.so", "hang")
	program := asking(t, path)
	hangs := filepath.Join(filepath.Dir(path), "hangs")
	for limit := time.Second; ; limit *= 2 {
		_, err := inventory.AskNVML(t.Context(), program, limit)
		if err == nil || !strings.Contains(err.Error(), "no answer within ") || errors.Is(err, inventory.ErrNoNVML) {
			t.Fatalf("AskNVML: %v, want: no answer within %v", err, limit)
		}
		if _, err := os.Stat(hangs); err == nil {
			break
		}
		if limit > time.Minute { // a loaded machine may take long to get as far as the library
			t.Fatalf("the library was not reached within %v", limit)
		}
	}
	text, err := os.ReadFile(hangs)
	must.NoError(t, err)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if p, err := os.FindProcess(pid); err != nil || p.Signal(syscall.Signal(0)) == nil {
		t.Errorf("pid %d is still there", pid)
	}
	if _, err := inventory.AskNVML(t.Context(), asking(t, stub(t, "new.so", "empty")), time.Minute); err != nil {
		t.Errorf("AskNVML after one that hung and died: %v", err)
	}
}
