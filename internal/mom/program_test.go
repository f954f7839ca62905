package mom

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

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
			if req.Progname != "/bin/sh" || len(req.Argv) != 2 || req.PID <= 0 || req.PID != req.Job.SessionID ||
				req.Env["PBS_JOBID"] != "12.srv" {
				t.Errorf("launch request: %q %q, pid %d of session %d, environment %v", req.Progname, req.Argv, req.PID,
					req.Job.SessionID, req.Env)
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

// launched is an engine whose launch does something to the process that waits.
func launched(t *testing.T, do func(pid int)) *recorder {
	return &recorder{answer: answers{
		hostapi.EventLaunch: func(req *hostapi.Request) (*hostapi.Outcome, error) {
			do(req.PID)
			return &hostapi.Outcome{}, nil
		},
	}}
}

// A program starts with the resource limits that launch has set, and with its caller's otherwise.
// Little address space is no obstacle to a large environment.
func TestLaunchWithRlimits(t *testing.T) {
	var files unix.Rlimit
	must.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &files))
	own, err := exec.Command("/bin/sh", "-c", "ulimit -Sn; ulimit -Hn").Output()
	must.NoError(t, err)
	for _, tt := range []struct {
		name     string
		resource int
		limit    *unix.Rlimit
		script   string
		want     string
	}{
		{"files", unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 200}, "ulimit -Sn; ulimit -Hn", "100\n200\n"},
		{"all files", unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files.Max, Max: files.Max}, "ulimit -Sn; ulimit -Hn",
			fmt.Sprintf("%d\n%d\n", files.Max, files.Max)},
		{"the caller's files", 0, nil, "ulimit -Sn; ulimit -Hn", string(own)},
		{"address space", unix.RLIMIT_AS, &unix.Rlimit{Cur: 32 << 20, Max: 32 << 20}, "ulimit -v", "32768\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.resource == unix.RLIMIT_AS && testing.Short() {
				t.Skip("the race detector, with which the short tests run, needs more")
			}
			spec := shell(tt.script)
			for i := range 15 {
				spec.Env = append(spec.Env, fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 1e5)))
			}
			got, _, err := outputOf(t, launched(t, func(pid int) {
				if tt.limit != nil {
					must.NoError(t, unix.Prlimit(pid, tt.resource, tt.limit, nil))
				}
			}), spec)
			if err != nil || got != tt.want {
				t.Errorf("output %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// A program runs in the cgroup that launch has moved the waiting process to. The program needs no
// second task there.
func TestLaunchInsideCgroup(t *testing.T) {
	kernfstest.NeedRoot(t)
	root := "/sys/fs/cgroup/pids/"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		root = "/sys/fs/cgroup/"
	}
	dir := root + fmt.Sprintf("hhtest_mom_%d", os.Getpid())
	must.NoError(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { removeCgroup(t, dir) })
	if err := os.WriteFile(dir+"/pids.max", []byte("1"), 0); err != nil {
		kernfstest.Elsewhere(t, "no pids controller for it: %v", err)
	}
	for range 20 {
		got, _, err := outputOf(t, launched(t, func(pid int) {
			must.NoError(t, os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0))
		}), shell("exec cat /proc/self/cgroup"))
		if err != nil || !strings.Contains(got, "/"+filepath.Base(dir)+"\n") {
			t.Fatalf("the program is in %q, %v", got, err)
		}
	}
}

// removeCgroup removes a cgroup whose processes have ended. A reaped process still holds its cgroup
// for a moment.
func removeCgroup(t *testing.T, dir string) {
	must.Eventually(t, "remove "+dir, func() bool {
		err := unix.Rmdir(dir)
		if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EINTR) {
			t.Fatalf("remove %s: %v", dir, err)
		}
		return err == nil
	})
}
