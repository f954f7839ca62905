package mom

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestLaunchAsHooksSay(t *testing.T) {
	echo := "/bin/echo"
	tests := []struct {
		name string
		out  hostapi.Outcome
		want string
	}{
		{name: "unchanged", want: "sh:-:-\n"},
		{name: "environment", out: hostapi.Outcome{SetEnv: map[string]string{"A": "hook"}, UnsetEnv: []string{"B"}},
			want: "sh:hook:-\n"},
		{name: "set wins over unset",
			out: hostapi.Outcome{SetEnv: map[string]string{"B": "hook"}, UnsetEnv: []string{"B"}}, want: "sh:-:hook\n"},
		{name: "arguments", out: hostapi.Outcome{Argv: []string{"-c", "echo other"}}, want: "other\n"},
		{name: "program", out: hostapi.Outcome{Progname: &echo, Argv: []string{"a", "b"}}, want: "a b\n"},
		{name: "no arguments", out: hostapi.Outcome{Progname: &echo, Argv: []string{}}, want: "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := shell(`echo "$0:${A--}:${B--}"`)
			spec.Program = "sh"
			if tt.name != "unchanged" {
				spec.Env = append(spec.Env, "B=inherited")
			}
			engine := &recorder{answer: answers{hostapi.EventLaunch: always(&tt.out, nil)}}
			got, _, err := outputOf(t, engine, spec)
			if err != nil || got != tt.want {
				t.Errorf("output %q, %v; want %q", got, err, tt.want)
			}
			req := engine.request(hostapi.EventLaunch)
			if req.Progname != "/bin/sh" || len(req.Argv) != 2 || req.PID != 0 || req.Env["PBS_JOBID"] != "12.srv" {
				t.Errorf("launch request: %q %q, pid %d, environment %v", req.Progname, req.Argv, req.PID, req.Env)
			}
		})
	}
}

func TestLaunchInDirectoryAsUser(t *testing.T) {
	kernfstest.NeedRoot(t)
	spec := shell(`echo "$(id -u):$(pwd):$USER:$LOGNAME:$(stat -c %u:%a "$TMPDIR")"`)
	t.Chdir("/usr")
	spec.TmpDir = t.TempDir()
	spec.Job.Owner = hostapi.Owner{User: "nobody", UID: 65534, GID: 65534}
	spec.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	// The test's own directories are closed to others.
	for dir := spec.TmpDir; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		must.NoError(t, os.Chmod(dir, 0o755))
	}
	got, _, err := outputOf(t, &recorder{}, spec)
	if want := "65534:/usr:nobody:nobody:65534:700\n"; err != nil || got != want {
		t.Errorf("output %q, %v; want %q", got, err, want)
	}
}

func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "plain/tool": 0o644, "here": 0o755,
		"plain/only": 0o644} {
		path := filepath.Join(dir, name)
		must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.NoError(t, os.WriteFile(path, nil, mode))
	}
	tests := []struct {
		name, program, path string
		want                string
		err                 error
	}{
		{name: "slash", program: "a/b", path: dir + "/bin", want: "a/b"},
		{name: "found", program: "tool", path: dir + ":" + dir + "/bin", want: dir + "/bin/tool"},
		{name: "what cannot be executed is passed over", program: "tool", path: dir + "/plain:" + dir + "/bin",
			want: dir + "/bin/tool"},
		{name: "nothing that can be executed", program: "only", path: dir + "/plain", err: unix.EACCES},
		{name: "a directory is none", program: "bin", path: dir, err: unix.ENOENT},
		{name: "relative entry", program: "tool", path: "bin", want: "bin/tool"},
		{name: "empty entry is the directory", program: "here", path: "/nowhere:", want: "./here"},
		{name: "dot", program: "here", path: ".", want: "./here"},
		{name: "the directory is not searched unasked", program: "here", path: dir + "/bin", err: unix.ENOENT},
		{name: "no path", program: "here", err: unix.ENOENT},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findProgram(tt.program, tt.path)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("findProgram = %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// A program starts with the resource limits that the hooks ask for.
func TestLaunchWithRlimits(t *testing.T) {
	limits := map[string]hostapi.Rlimit{"nofile": {Soft: 100, Hard: 200}}
	engine := &recorder{answer: answers{hostapi.EventLaunch: always(&hostapi.Outcome{Rlimits: limits}, nil)}}
	got, _, err := outputOf(t, engine, shell("ulimit -Sn; ulimit -Hn"))
	if want := "100\n200\n"; err != nil || got != want {
		t.Errorf("output %q, %v; want %q", got, err, want)
	}
}

// TestLaunchInsideCgroup runs a job whose launch names cgroups of this machine.
func TestLaunchInsideCgroup(t *testing.T) {
	const root = "/sys/fs/cgroup/"
	name := fmt.Sprintf("hhtest_mom_%d", os.Getpid())
	dirs := []string{root + "memory/" + name, root + "pids/" + name, root + "unified/" + name}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			kernfstest.Skip(t, "no hybrid cgroups here: %v", err)
		}
		t.Cleanup(func() { removeCgroup(t, dir) })
	}
	join := &hostapi.Join{CgroupDir: dirs[2], Tasks: []string{dirs[0] + "/tasks", dirs[1] + "/tasks"}}
	engine := &recorder{answer: answers{hostapi.EventLaunch: always(&hostapi.Outcome{Join: join}, nil)}}
	got, _, err := outputOf(t, engine, shell("exec cat /proc/self/cgroup"))
	must.NoError(t, err)
	in := map[string]string{}
	for line := range strings.Lines(got) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if f[1] == "" || f[1] == "memory" || f[1] == "pids" {
			in[f[1]] = f[2]
		}
	}
	want := map[string]string{"": "/" + name, "memory": "/" + name, "pids": "/" + name}
	must.Equal(t, "cgroups of the program", want, in)
}

// removeCgroup removes a cgroup whose processes have ended. A reaped process still holds its cgroup
// for a moment.
func removeCgroup(t *testing.T, dir string) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			t.Errorf("remove %s: %v", dir, err)
			return
		}
	}
}
