package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// PBS's own forms (openpbs.md 3.6): sizes in kb, durations, whole numbers.
var (
	kbForm       = regexp.MustCompile(`^\d+kb$`)
	durationForm = regexp.MustCompile(`^\d+:\d\d:\d\d$`)
)

func kb(t *testing.T, a answer, name string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(a.used(name), "kb"))
	if err != nil || !kbForm.MatchString(a.used(name)) {
		t.Errorf("%s = %q, want kb", name, a.used(name))
	}
	return n
}

// A job's usage is zero from begin on, so that MoM's polling never owns it, and is told before the
// counters go. The usage has cput, memory without page cache, and cpupercent of the time since it
// was told last.
func TestChecklist10Usage(t *testing.T) {
	t.Parallel() // it waits more than it does
	m := newMoM(t)
	m.serve()
	j := pbsJob{id: "1001.pbshost", list: "ncpus=1,mem=256mb"}
	a := m.begin(j)
	for name, want := range map[string]string{"mem": "0kb", "cput": "00:00:00", "cpupercent": "0"} {
		if a.used(name) != want {
			t.Errorf("at begin %s = %q, want %q", name, a.used(name), want)
		}
	}
	file, first, second := filepath.Join(onDisk(t), "cache"), m.path("first"), m.path("second")
	k := m.fork()
	if a := k.launch(j); !a.accepted {
		t.Fatalf("launch: %+v", a)
	}
	k.exec("python3", "-c", `import os, sys, time
with open(sys.argv[1], "wb") as f: # 100 MB of page cache
    for _ in range(100): f.write(bytes(1 << 20))
x = bytearray(60 << 20)
print("ready", flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.05)
end = time.process_time() + 2
while time.process_time() < end: pass
print("burnt", flush=True)
while not os.path.exists(sys.argv[3]): time.sleep(0.05)`, file, first, second)
	k.await("ready")
	idle := time.Duration(enough(3)) * time.Second
	time.Sleep(idle)
	list := func() answer {
		return m.hook(m.hostInput("exechost_periodic", m.listed(j)...))
	}
	before := list()
	began := time.Now()
	must.NoError(t, os.WriteFile(first, nil, 0o644))
	k.await("burnt")
	after := list()
	took := time.Since(began)
	inList := func(a answer, name string) string { return a.set[`job_list["`+j.id+`"].resources_used[`+name+`]`] }
	for _, name := range []string{"mem", "vmem", "cput", "cpupercent"} {
		if inList(after, name) == "" && !(name == "vmem" && inList(before, name) == "") {
			t.Errorf("periodic tells no %s: %+v", name, after.set)
		}
	}
	if !durationForm.MatchString(inList(after, "cput")) || seconds(t, inList(after, "cput")) < 2*time.Second {
		t.Errorf("cput = %q", inList(after, "cput"))
	}
	// Two seconds of cpu in all the time since the launch would be less than half of this.
	share := int(100 * 2 / took.Seconds())
	whole := int(100 * 2 / (took + idle).Seconds())
	if got, err := strconv.Atoi(inList(after, "cpupercent")); err != nil || got < (share+whole)/2 || got > 2*share+20 {
		t.Errorf("cpupercent = %q, want about %d, of the time since it was told last, and not %d, of all",
			inList(after, "cpupercent"), share, whole)
	}
	must.NoError(t, os.WriteFile(second, nil, 0o644))
	k.over()
	a = m.end(j)
	if mem := kb(t, a, "mem"); mem < 60<<10 || mem > 100<<10 {
		t.Errorf("mem = %dkb, want the 60 MB that it held, and not the page cache", mem)
	}
	if !durationForm.MatchString(a.used("cput")) || seconds(t, a.used("cput")) < 2*time.Second {
		t.Errorf("cput = %q at epilogue", a.used("cput"))
	}
	if _, told := a.set["job.resources_used[walltime]"]; told {
		t.Error("walltime is MoM's own")
	}
	for _, h := range decodeReport(t, m.hookhost("report", j.id, "--format=json").stdout).Hosts {
		// V2 tells no peak before Linux 5.19.
		if h.MemBytes != nil && h.CgroupPeakBytes != nil && *h.CgroupPeakBytes < *h.MemBytes+80<<20 {
			t.Errorf("report: mem %d, cgroup's peak %d, want them apart", *h.MemBytes, *h.CgroupPeakBytes)
		}
	}
}

// onDisk makes a folder that everybody may write to, where files are on a disk. In a tmpfs, as
// /tmp may be one, files are memory.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "hhtest")
	must.NoError(t, err, os.Chmod(dir, 0o777))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// listed is a job as a periodic's job_list has it.
func (m *mom) listed(j pbsJob) []string {
	var lines []string
	for line := range strings.Lines(m.input("execjob_epilogue", j)) {
		if rest, found := strings.CutPrefix(line, "pbs.event().job."); found && !strings.HasPrefix(rest, "id=") {
			lines = append(lines, `job_list["`+j.id+`"].`+strings.TrimSuffix(rest, "\n"))
		}
	}
	return lines
}

// await waits until the task's program has said text on a line of its own.
func (k *task) await(text string) {
	k.t.Helper()
	for {
		line, err := k.stdout.ReadString('\n')
		if err != nil {
			k.t.Fatalf("the program has ended without %q: %v", text, err)
		}
		if line == text+"\n" {
			return
		}
	}
}

// A kill for want of memory is told where the kernel has killed, and only there. The job is told
// in its standard error, and PBS is.
func TestChecklist11OOM(t *testing.T) {
	m := newMoM(t)
	m.serve()
	for _, tt := range []struct{ id, joinPath, file, other string }{{"1101.pbshost", "n", ".ER", ".OU"},
		{"1102.pbshost", "oe", ".OU", ".ER"}} {
		j := pbsJob{id: tt.id, joinPath: tt.joinPath, list: "ncpus=1,mem=48mb"}
		for _, end := range []string{".ER", ".OU"} {
			must.NoError(t, os.WriteFile(m.at("spool/"+j.id+end), []byte("said before\n"), 0o600),
				os.Chown(m.at("spool/"+j.id+end), ownerUID, ownerUID))
		}
		k := m.running(j, "python3", "-c", "x = bytearray(300 << 20)")
		k.over()
		a := m.end(j)
		var diag map[string]string
		if err := json.Unmarshal([]byte(a.used("diag_messages")), &diag); err != nil ||
			diag[momHost] != "Cgroup mem limit exceeded" || strings.Contains(a.used("diag_messages"), ": ") {
			t.Errorf("diag_messages = %q", a.used("diag_messages"))
		}
		b, err := os.ReadFile(m.at("spool/" + j.id + tt.file))
		must.NoError(t, err)
		if line := regexp.MustCompile(`\Asaid before\nCgroup mem limit exceeded: .*Killed process \d+ \(python3\).*\n\z`); !line.Match(b) {
			t.Errorf("%s: %q, want %s", tt.file, b, line)
		}
		if b, err := os.ReadFile(m.at("spool/" + j.id + tt.other)); err != nil || string(b) != "said before\n" {
			t.Errorf("%s: %q, %v", tt.other, b, err)
		}
	}

	// A limit that is hit, as page cache does all the time, is no kill.
	j := pbsJob{id: "1103.pbshost", list: "ncpus=1,mem=48mb"}
	k := m.running(j, "dd", "if=/dev/zero", "of="+filepath.Join(onDisk(t), "big"), "bs=1048576", "count=200",
		"status=none")
	k.over()
	a := m.end(j)
	if strings.Contains(a.used("diag_messages"), "exceeded") || exists(m.at("spool/"+j.id+".ER")) {
		t.Errorf("a job that has met its limit by page cache alone: diag_messages = %q", a.used("diag_messages"))
	}

	// The spool is everybody's: what is there under the job's name need not be the job's.
	j = pbsJob{id: "1104.pbshost", list: "ncpus=1,mem=48mb"}
	secret := m.path("secret")
	must.NoError(t, os.WriteFile(secret, nil, 0o666), os.Symlink(secret, m.at("spool/"+j.id+".ER")))
	k = m.running(j, "python3", "-c", "x = bytearray(300 << 20)")
	k.over()
	m.end(j)
	if b, _ := os.ReadFile(secret); len(b) > 0 {
		t.Errorf("what was behind a link has %q", b)
	}
}

// Each host tells its own share, in forms that the mother superior can add up and unite. The share
// of a host that has not told is missing in a report, and not zero.
func TestChecklist12EachHostTellsItsOwn(t *testing.T) {
	chunks := "(pbshost:ncpus=1:mem=65536kb)+(sister:ncpus=1:mem=49152kb)"
	hosts := []*mom{newMoM(t), newMoMOf(t, "sister")}
	united := map[string]string{}
	sum := 0
	for i, m := range hosts {
		m.serve()
		j := pbsJob{id: "1201.pbshost", chunks: chunks, list: "ncpus=2,mem=112mb", sister: i > 0}
		k := m.running(j, "python3", "-c", "x = bytearray(300 << 20)")
		if got, want := m.limit(j.id), int64([]int{64, 48}[i]<<20); got != want {
			t.Errorf("%s: limit %d, want %d", m.name, got, want)
		}
		k.over()
		a := m.end(j)
		if got := kb(t, a, "mem"); got > []int{64, 48}[i]<<10 {
			t.Errorf("%s: mem = %dkb", m.name, got)
		}
		sum += kb(t, a, "mem")
		text := a.used("diag_messages")
		if err := json.Unmarshal([]byte(text), &united); err != nil ||
			strings.ContainsAny(strings.ReplaceAll(text, "Cgroup mem limit exceeded", ""), " \n") {
			t.Errorf("%s: diag_messages = %q: %v", m.name, text, err)
		}
		if i > 0 && exists(m.at("spool/"+j.id+".ER")) {
			t.Error("a sister has written to the job's standard error")
		}
	}
	want := map[string]string{"pbshost": "Cgroup mem limit exceeded", "sister": "Cgroup mem limit exceeded"}
	if fmt.Sprint(united) != fmt.Sprint(want) {
		t.Errorf("united they are %v, want %v", united, want)
	}
	report := hosts[0].hookhost("report", "1201.pbshost").stdout
	if !strings.Contains(report, "sister") {
		t.Errorf("the mother superior's report says nothing of the other host:\n%s", report)
	}
}
