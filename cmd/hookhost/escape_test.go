package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// escape is a job's program that tries to have a child elsewhere than the job. The program writes
// to cgroup.procs, calls clone3(2) with a cgroup, and does both in namespaces in which it is root.
// Each child prints its /proc/self/cgroup.
const escape = `
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWCGROUP, NEWUSER, NEWPID = 0x20000, 0x2000000, 0x10000000, 0x20000000
def place(name):
    print(name, open("/proc/self/cgroup").read().replace("\n", ";"), flush=True)
def child(name, attempt):
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            attempt()
        except OSError as e:
            print("#", name, e, flush=True)
        place(name)
        os._exit(0)
    os.waitpid(pid, 0)
def write(directory):
    with open(directory + "/cgroup.procs", "w") as f:
        f.write(str(os.getpid()))
def into(directory):
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY) # only root can list it
    args = struct.pack("11Q", 0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, fd)
    pid = libc.syscall(435, args, len(args))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    if pid == 0:
        place("clone3 into " + directory)
        os._exit(0)
    os.waitpid(pid, 0)
def unshared(attempt):
    def do():
        if libc.unshare(NEWUSER | NEWNS | NEWCGROUP | NEWPID):
            raise OSError(ctypes.get_errno(), "unshare")
        pid = os.fork()
        if pid == 0:
            try:
                attempt()
            except OSError as e:
                print("#", e, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        attempt()
    return do
def mounted(directory):
    libc.mount(b"none", b"/", None, 0x44000, None)
    if libc.mount(b"none", b"/tmp", b"cgroup2", 0, None):
        raise OSError(ctypes.get_errno(), "mount")
    write("/tmp")
place("itself")
for directory in sys.argv[1:]:
    for name, attempt in (("write", write), ("clone3", into)):
        child(name + " " + directory, lambda: attempt(directory))
        child(name + " in namespaces " + directory, unshared(lambda: attempt(directory)))
child("own mount", unshared(lambda: mounted("")))
`

// The owner of a job has cgroups of its own: a second job, and one that somebody has delegated on
// v2. No child gets into one, or above the job.
func TestNoChildOfAJobGetsIntoAnotherCgroup(t *testing.T) {
	n := newNode(t)
	n.serve()
	const other = "8.node"
	n.beginFor(t, other)
	var targets []string
	for _, v2 := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if !exists(v2 + "/cgroup.controllers") { // a node may have no v2 tree
			continue
		}
		delegated := filepath.Join(v2, n.prefix+"_delegated")
		must.NoError(t, os.Mkdir(delegated, 0o755), os.Chown(delegated, ownerUID, ownerUID))
		t.Cleanup(func() { must.NoError(t, os.Remove(delegated)) })
		files, err := filepath.Glob(delegated + "/cgroup.*")
		must.NoError(t, err)
		for _, file := range files {
			must.NoError(t, os.Chown(file, ownerUID, ownerUID))
		}
		targets = append(targets, delegated, v2)
	}
	for _, procs := range n.jobDirs() {
		targets = append(targets, filepath.Dir(procs), filepath.Dir(filepath.Dir(procs)))
	}
	r := n.hookhost(append([]string{"run", "-u", "nobody", "--report=none", "--", "/usr/bin/python3", "-c", escape},
		targets...)...)
	if r.status != 0 {
		t.Fatalf("status %d", r.status)
	}
	place, tries := "", 0
	for line := range strings.Lines(r.stdout) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		// In a cgroup namespace of its own a child sees its cgroup of then as the root.
		at := strings.LastIndex(line, " ")
		switch got := strings.TrimSpace(line[at:]); {
		case place == "":
			place = got
		case strings.Contains(line, " in namespaces ") || strings.HasPrefix(line, "own mount"):
			tries++
			for entry := range strings.SplitSeq(strings.Trim(got, ";"), ";") {
				if !strings.HasSuffix(entry, ":/") && !strings.Contains(place, entry+";") {
					t.Errorf("%s: %s", line[:at], entry)
				}
			}
		case got != place:
			t.Errorf("%s: in %s, and the job in %s", line[:at], got, place)
		default:
			tries++
		}
	}
	if want := 4*len(targets) + 1; tries < want {
		t.Errorf("%d attempts were made, want %d", tries, want)
	}
}

// deserter is a job of root's whose process leaves its cgroup and damages it.
const deserter = `
for line in $(cat /proc/self/cgroup); do
	path=${line##*:}
	for top in /sys/fs/cgroup /sys/fs/cgroup/*; do
		dir=$top$path
		case $dir in *"$1"*) ;; *) continue ;; esac
		[ -d "$dir" ] || continue
		mkdir "$dir/below" 2>/dev/null
		for file in memory.max memory.limit_in_bytes pids.max cpu.max; do
			[ ! -e "$dir/$file" ] || echo max >"$dir/$file" || :
		done
		chmod 000 "$dir"
		echo $$ >"$top/cgroup.procs" || :
	done
done 2>/dev/null
grep -c "$1" /proc/self/cgroup
exit 0
`

// Root in a job can leave it: nothing is built on root's staying. The job ends as any other, its
// cgroups go, and no other job is changed.
func TestRootThatLeavesItsJobChangesNoOther(t *testing.T) {
	n := newNode(t)
	n.serve()
	n.beginFor(t, "8.node")
	state := func() string {
		var text strings.Builder
		for _, procs := range n.jobDirs() {
			for _, file := range []string{"memory.max", "memory.limit_in_bytes", "cpuset.cpus", "pids.max",
				"cgroup.procs"} {
				b, err := os.ReadFile(filepath.Join(filepath.Dir(procs), file))
				fmt.Fprintf(&text, "%s %s %s %t\n", procs, file, b, err == nil)
			}
		}
		return text.String()
	}
	before := state()
	if !strings.Contains(before, "1572864000") {
		t.Errorf("the other job has no limit: %s", before)
	}
	r := n.hookhost("run", "--report=none", "--", "sh", "-c", deserter, "sh", n.prefix)
	if r.status != 0 || r.stdout != "0\n" {
		t.Errorf("status %d; it is in %q cgroups of its job, want 0", r.status, r.stdout)
	}
	must.Equal(t, "the other job", before, state())
	if r := n.hookhost("run", "-u", "nobody", "--report=none", "--", "true"); r.status != 0 {
		t.Errorf("the next job: status %d", r.status)
	}
}
