package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// lib is where lab/vm/pack puts the packages, in a folder for each version.
const lib = "/lab/.packages"

func needGuestWithPackages(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/lab/.lab/command"); err != nil {
		kernfstest.Elsewhere(t, "no guest of the laboratory: this machine's packages are not the test's to change")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		kernfstest.Elsewhere(t, "process 1 is not systemd")
	}
	depends := output(t, "dpkg-deb", "-f", lib+"/v1.0.0/hookhost_1.0.0_amd64.deb", "Depends")
	glibc := regexp.MustCompile(`libc6 \(>= ([0-9.]+)\)`).FindStringSubmatch(depends)
	installed := output(t, "dpkg-query", "-W", "-f", "${Version}", "libc6")
	if glibc == nil || exec.Command("dpkg", "--compare-versions", installed, "ge", glibc[1]).Run() != nil {
		kernfstest.Elsewhere(t, "glibc %s: the packages were built for %s", installed, depends)
	}
}

// output returns what a command prints, and fails the test if the command fails.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// apt types a command of docs/packages.md into a shell, in the folder of a version's packages, and
// answers yes. It returns what the command prints.
func apt(t *testing.T, version, command string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/packages.md")
	must.NoError(t, err)
	if !strings.Contains(string(page), command) {
		t.Errorf("docs/packages.md does not say %q", command)
	}
	began := time.Now()
	shell := exec.Command("sh", "-c", command)
	shell.Dir, shell.Stdin = lib+"/"+version, strings.NewReader("y\n")
	out, err := shell.CombinedOutput()
	t.Logf("%s: %v\n%s", command, time.Since(began).Round(10*time.Millisecond), out)
	must.NoError(t, err)
	return string(out)
}

// property returns what systemd knows of a unit.
func property(t *testing.T, unit, name string) string {
	t.Helper()
	return output(t, "systemctl", "show", "--value", "--property="+name, unit)
}

// job is a job of `hookhost run` that ends when its file exists.
type job struct {
	id, end       string
	called, began time.Time // before and after the start of its program
	run           *exec.Cmd
}

func start(t *testing.T, id, work string) *job {
	t.Helper()
	j := &job{id: id, end: filepath.Join(t.TempDir(), "end")}
	began := j.end + ".began"
	script := fmt.Sprintf(": >%s; until [ -e %s ]; do %s; done; exit 7", began, j.end, work)
	j.run = exec.Command("hookhost", "run", "--job", id, "--report=none", "-l", "select=1:ncpus=0:mem=16mb", "--",
		"sh", "-c", script)
	j.called = time.Now()
	must.NoError(t, j.run.Start())
	t.Cleanup(func() { os.WriteFile(j.end, nil, 0o644); j.run.Wait() })
	must.Eventually(t, "job "+id+" runs", func() bool { _, err := os.Stat(began); return err == nil })
	j.began = time.Now()
	return j
}

// confinement returns limits and processes of the job's cgroup, by file. A process that the job's
// script starts comes and goes, so only the script counts.
func (j *job) confinement() map[string]string {
	files := map[string]string{}
	for _, name := range []string{"cgroup.procs", "memory.max", "memory.swap.max", "pids.max", "cpu.weight"} {
		text, _ := os.ReadFile("/sys/fs/cgroup/pbs_jobs.service/jobs/" + j.id + "/" + name)
		first, _, _ := strings.Cut(string(text), "\n")
		files[name] = first
	}
	return files
}

// finish ends the job's program, and fails the test unless its status and its report are whole.
func (j *job) finish(t *testing.T) {
	t.Helper()
	least := time.Since(j.began).Seconds() - 1 // the report has whole seconds
	must.NoError(t, os.WriteFile(j.end, nil, 0o644))
	j.run.Wait()
	most := time.Since(j.called).Seconds()
	if status := j.run.ProcessState.ExitCode(); status != 7 {
		t.Errorf("job %s: status %d, want 7", j.id, status)
	}
	csv := output(t, "hookhost", "report", "--format=csv", "--columns=walltime_seconds", j.id)
	_, value, _ := strings.Cut(csv, "\n")
	if walltime, err := strconv.ParseFloat(value, 64); err != nil || walltime < least || walltime > most {
		t.Errorf("job %s: the report has %q s, and it ran for %.1f to %.1f s", j.id, value, least, most)
	}
}

// files returns the node's files and directories that packages and services may leave.
func files(t *testing.T) []string {
	t.Helper()
	find := []string{"/etc", "/usr", "/opt", "/run", "/var", "/root", "-xdev"}
	for _, others := range []string{"/run/systemd/*", "/run/log/*", "/run/lab-out*", "/var/cache/apt*",
		"/var/cache/debconf*", "/var/lib/apt*", "/var/lib/dpkg*", "/var/log/*", "/var/tmp/*"} {
		find = append(find, "!", "-path", others)
	}
	list := strings.Split(output(t, "find", find...), "\n")
	if _, err := os.Stat("/run/systemd/system/pbs_jobs.service"); err == nil {
		list = append(list, "/run/systemd/system/pbs_jobs.service")
	}
	return list
}

// added returns what of a list is not in an earlier one, without what is below /run/hookhost and
// /var/lib/hookhost.
func added(before, after []string) (names []string) {
	for _, name := range after {
		inside := strings.HasPrefix(name, "/run/hookhost/") || strings.HasPrefix(name, "/var/lib/hookhost/")
		if !inside && !slices.Contains(before, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestNodeByPackages is the life of a node's package, as docs/packages.md describes it. It is
// installed, upgraded and downgraded under running jobs, removed under a running job, installed
// again and purged.
func TestNodeByPackages(t *testing.T) {
	needGuestWithPackages(t)
	before := files(t)
	t.Cleanup(func() { exec.Command("dpkg", "--purge", "hookhost").Run() })

	said := apt(t, "v1.0.0", "apt install ./hookhost_*.deb")
	if strings.Count(said, "hookhost doctor") != 1 {
		t.Error("the installation does not name hookhost doctor")
	}
	must.Equal(t, "the daemon after installation", "active", property(t, "hookhost", "ActiveState"))
	must.Equal(t, "hookhost-web after installation", "inactive", property(t, "hookhost-web", "ActiveState"))
	must.Equal(t, "version", "hookhost v1.0.0", output(t, "hookhost", "version"))
	t.Logf("doctor:\n%s", output(t, "hookhost", "doctor")) // fails if something cannot work

	// Nobody is on the node but ten jobs, of which two compute.
	var jobs []*job
	for i := range 10 {
		jobs = append(jobs, start(t, fmt.Sprintf("%d.pack", i), []string{"sleep 0.2", ":"}[i/8]))
	}
	confinements := func() map[string]map[string]string {
		all := map[string]map[string]string{}
		for _, j := range jobs {
			all[j.id] = j.confinement()
		}
		return all
	}
	want := confinements()
	if limit := want["0.pack"]["memory.max"]; limit == "max" || limit == "" {
		t.Fatalf("a job's memory limit is %q", limit)
	}
	unchanged := func(after string) {
		t.Helper()
		must.Equal(t, "jobs after "+after, want, confinements())
		must.Equal(t, "their unit after "+after, "active", property(t, "pbs_jobs", "ActiveState"))
	}
	for _, change := range []struct{ version, command string }{
		{"v1.1.0", "apt install ./hookhost_*.deb"},
		{"v1.0.0", "apt install --allow-downgrades ./hookhost_*.deb"},
	} {
		version := change.version
		pid := property(t, "hookhost", "MainPID")
		apt(t, version, change.command)
		unchanged("the change to " + version)
		must.Equal(t, "version", "hookhost "+version, output(t, "hookhost", "version"))
		if now := property(t, "hookhost", "MainPID"); now == pid || now == "0" {
			t.Errorf("the daemon is still process %s", now)
		}
		listed := output(t, "hookhost", "jobs")
		for _, j := range jobs {
			if !strings.Contains(listed, j.id) {
				t.Errorf("job %s is not listed after the change to %s:\n%s", j.id, version, listed)
			}
		}
	}
	last := jobs[0]
	for _, j := range jobs[1:] {
		j.finish(t)
	}
	jobs = jobs[:1]
	want = confinements()
	over := exec.Command("hookhost", "run", "--report=none", "-l", "select=1:ncpus=1:mem=32mb", "--", "python3", "-c",
		"x = bytearray(200 << 20)")
	over.Run()
	must.Equal(t, "status of a job beyond its memory", 137, over.ProcessState.ExitCode())

	must.NoError(t, os.WriteFile("/etc/hookhost/hookhost.toml", []byte("[walltime]\nmaximum = \"72h\"\n"), 0o644))
	said = apt(t, "", "apt remove hookhost")
	if !strings.Contains(said, "0.pack") {
		t.Error("the removal does not name the job")
	}
	unchanged("the removal")
	output(t, "systemctl", "daemon-reload")
	unchanged("a reload of systemd after the removal")
	must.Equal(t, "what the removal leaves", []string{
		"/etc/hookhost",
		"/etc/hookhost/hookhost.toml",
		"/etc/systemd/system/multi-user.target.wants/hookhost.service",
		"/run/hookhost",
		"/run/systemd/system/pbs_jobs.service",
		"/var/lib/hookhost",
		"/var/lib/systemd/deb-systemd-helper-enabled/hookhost-web.service.dsh-also",
		"/var/lib/systemd/deb-systemd-helper-enabled/hookhost.service.dsh-also",
		"/var/lib/systemd/deb-systemd-helper-enabled/multi-user.target.wants/hookhost.service",
	}, added(before, files(t)))

	apt(t, "v1.1.0", "apt install ./hookhost_*.deb")
	unchanged("the second installation")
	must.Equal(t, "the daemon after the second installation", "active", property(t, "hookhost", "ActiveState"))
	if listed := output(t, "hookhost", "jobs"); !strings.Contains(listed, last.id) {
		t.Errorf("the second installation does not know the job:\n%s", listed)
	}
	last.finish(t)

	said = apt(t, "", "apt purge hookhost")
	if strings.Contains(said, "these jobs") {
		t.Error("the purge names jobs, and none runs")
	}
	must.Equal(t, "what a purge leaves", []string{
		"/run/hookhost", "/run/systemd/system/pbs_jobs.service", "/var/lib/hookhost",
	}, added(before, files(t)))
}
