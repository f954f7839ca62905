package devfilter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// world is one of the two mechanisms of the running kernel.
type world struct {
	tree *kernfs.FS // a hierarchy that has it
	v2   bool
}

func worldV1(t testing.TB) world {
	t.Helper()
	roots := kernfstest.NeedV1(t, "devices")
	tree, err := roots.Cgroup.Sub("devices")
	must.NoError(t, err)
	return world{tree: tree}
}

func worldV2(t testing.TB) world {
	t.Helper()
	roots, dir := kernfstest.NeedV2(t)
	tree, err := roots.Cgroup.Sub(dir)
	must.NoError(t, err)
	if err := Probe(); err != nil {
		kernfstest.Skip(t, "%v", err)
	}
	return world{tree: tree, v2: true}
}

var jobs atomic.Int64

// job makes a cgroup, which is removed after those that the test starts in it have ended.
func (w world) job(t testing.TB) (Place, *kernfs.FS) {
	t.Helper()
	name := fmt.Sprintf("%s_%d", testPrefix(), jobs.Add(1))
	must.NoError(t, w.tree.Mkdir(name))
	t.Cleanup(func() {
		if err := w.tree.Rmdir(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	dir, err := w.tree.Sub(name)
	must.NoError(t, err)
	if w.v2 {
		return Place{V2: dir.Path(".")}, dir
	}
	return Place{V1: dir}, dir
}

// member starts a process in a job's cgroup.
func member(t testing.TB, dir *kernfs.FS) *actor {
	t.Helper()
	a := startActor(t)
	must.NoError(t, dir.Write("cgroup.procs", strconv.Itoa(a.cmd.Process.Pid)))
	return a
}

// nodes makes nodes of devices in a directory that the kernel opens devices in.
type nodes struct{ dir string }

func newNodes(t testing.TB) nodes {
	t.Helper()
	for _, parent := range []string{t.TempDir(), "/var/tmp", "/dev"} { // systemd mounts /tmp with nodev
		var st unix.Statfs_t
		if err := unix.Statfs(parent, &st); err != nil || st.Flags&unix.ST_NODEV != 0 {
			continue
		}
		dir, err := os.MkdirTemp(parent, "hhtest_devfilter_")
		must.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		return nodes{dir}
	}
	kernfstest.Skip(t, "every place for device nodes is mounted with nodev")
	return nodes{}
}

func (n nodes) path(t testing.TB, kind devrule.Kind, major, minor uint32) string {
	t.Helper()
	path := filepath.Join(n.dir, fmt.Sprintf("%c-%d-%d", kind, major, minor))
	mode := uint32(unix.S_IFCHR)
	if kind == devrule.Block {
		mode = unix.S_IFBLK
	}
	if err := unix.Mknod(path, mode|0o666, int(unix.Mkdev(major, minor))); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatalf("mknod %s: %v", path, err)
	}
	return path
}

// The results of an open. permitted is for devices that need not have a driver here: any answer but
// denied.
const (
	opens     = unix.Errno(0)
	permitted = unix.ENXIO
	denied    = unix.EPERM
)

func TestContractV1(t *testing.T) { contract(t, worldV1) }
func TestContractV2(t *testing.T) { contract(t, worldV2) }

func contract(t *testing.T, kernel func(testing.TB) world) {
	w := kernel(t)
	for name, test := range map[string]func(*testing.T, world){
		"granted devices open and others do not": granted,
		"each bit by itself":                     accessBits,
		"mknod":                                  makeNode,
		"descendants":                            descendants,
		"changes":                                changes,
		"many rules":                             manyRules,
		"again":                                  again,
		"in force":                               inForce,
		"death of the installer":                 installerDies,
		"change under load":                      underLoad,
		"gone":                                   gone,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

func mustInstall(t testing.TB, p Place, rules ...string) {
	t.Helper()
	if err := Install(p, mustRules(t, rules...)); err != nil {
		t.Fatalf("install %q: %v", rules, err)
	}
}

// expect has a process open a device.
func expect(t *testing.T, a *actor, n nodes, kind devrule.Kind, major, minor uint32, flags int, want unix.Errno,
	via ...string) {
	t.Helper()
	got := a.do(order{Do: "open", Path: n.path(t, kind, major, minor), Flags: flags, Again: via}).Errno
	if got != want && (want != permitted || got == denied) {
		t.Errorf("open %c %d:%d, flags %#x, %v: got %v, want %v", kind, major, minor, flags, via, errno(got),
			errno(want))
	}
}

func errno(e unix.Errno) string {
	if e == 0 {
		return "success"
	}
	return e.Error()
}

func granted(t *testing.T, w world) {
	p, dir := w.job(t)
	mustInstall(t, p, "c 1:3 rwm", "c 195:1 rw", "c 195:3 rw", "b 195:0 r")
	a, n := member(t, dir), newNodes(t)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, opens)
	for _, minor := range []uint32{5, 7, 8, 9} {
		expect(t, a, n, devrule.Char, 1, minor, unix.O_RDONLY, denied)
	}
	for minor := range uint32(8) {
		want := denied
		if minor == 1 || minor == 3 {
			want = permitted
		}
		expect(t, a, n, devrule.Char, 195, minor, unix.O_RDWR, want)
		expect(t, a, n, devrule.Block, 195, minor, unix.O_RDWR, denied)
	}
	expect(t, a, n, devrule.Block, 195, 0, unix.O_RDONLY, permitted)
	expect(t, a, n, devrule.Char, 196, 1, unix.O_RDONLY, denied)
	if _, err := os.Stat("/sys/block/loop0"); err == nil {
		expect(t, a, n, devrule.Block, 7, 0, unix.O_RDONLY, denied)
		mustInstall(t, p, "b 7:* r")
		expect(t, a, n, devrule.Block, 7, 0, unix.O_RDONLY, opens)
		expect(t, a, n, devrule.Block, 7, 0, unix.O_RDWR, denied)
	}
	mustInstall(t, p)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDONLY, denied)
	mustInstall(t, p, "c *:3 rw")
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, opens)
	expect(t, a, n, devrule.Char, 195, 3, unix.O_RDWR, permitted)
	expect(t, a, n, devrule.Char, 1, 5, unix.O_RDONLY, denied)
}

func accessBits(t *testing.T, w world) {
	p, dir := w.job(t)
	mustInstall(t, p, "c 1:3 r", "c 1:5 w", "c 1:7 r", "c 1:7 w", "c 1:9 rm")
	a, n := member(t, dir), newNodes(t)
	for _, tt := range []struct {
		minor   uint32
		r, w, b unix.Errno // reading, writing, both
	}{
		{3, opens, denied, denied},
		{5, denied, opens, denied},
		{7, opens, opens, opens},
		{8, denied, denied, denied},
		{9, opens, denied, denied},
	} {
		expect(t, a, n, devrule.Char, 1, tt.minor, unix.O_RDONLY, tt.r)
		expect(t, a, n, devrule.Char, 1, tt.minor, unix.O_WRONLY, tt.w)
		expect(t, a, n, devrule.Char, 1, tt.minor, unix.O_RDWR, tt.b)
	}
	// Two rules do not add up.
	mustInstall(t, p, "c 1:* r", "c 1:3 w")
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDONLY, opens)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_WRONLY, opens)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, denied)
}

func makeNode(t *testing.T, w world) {
	p, dir := w.job(t)
	mustInstall(t, p, "c 1:3 rwm", "c 1:5 rw")
	a, n := member(t, dir), newNodes(t)
	for _, tt := range []struct {
		minor uint32
		want  unix.Errno
	}{{3, 0}, {5, denied}, {7, denied}} {
		path := filepath.Join(n.dir, fmt.Sprint("made-", tt.minor))
		if got := a.do(order{Do: "mknod", Path: path, Dev: int(unix.Mkdev(1, tt.minor))}).Errno; got != tt.want {
			t.Errorf("mknod c 1:%d: got %v, want %v", tt.minor, errno(got), errno(tt.want))
		}
	}
}

func descendants(t *testing.T, w world) {
	p, dir := w.job(t)
	mustInstall(t, p, "c 1:3 rw")
	a, n := member(t, dir), newNodes(t)
	for _, via := range [][]string{{"fork"}, {"exec"}, {"setsid"}, {"fork", "setsid", "fork"}} {
		expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, opens, via...)
		expect(t, a, n, devrule.Char, 1, 5, unix.O_RDONLY, denied, via...)
	}
	// In a cgroup that the job makes below its own.
	must.NoError(t, dir.Mkdir("below"))
	t.Cleanup(func() {
		if err := dir.Rmdir("below"); err != nil {
			t.Error(err)
		}
	})
	below, err := dir.Sub("below")
	must.NoError(t, err)
	b := member(t, below)
	expect(t, b, n, devrule.Char, 1, 3, unix.O_RDWR, opens)
	expect(t, b, n, devrule.Char, 1, 5, unix.O_RDONLY, denied)
	mustInstall(t, p, "c 1:5 r")
	expect(t, b, n, devrule.Char, 1, 3, unix.O_RDWR, denied)
}

func changes(t *testing.T, w world) {
	p, dir := w.job(t)
	a, n := member(t, dir), newNodes(t)
	for i := range uint32(200) {
		mustInstall(t, p, "c 1:3 rwm", fmt.Sprintf("c 195:%d rw", i), fmt.Sprintf("c 196:* %s", devrule.Access(1+i%7)))
	}
	if got := programDescriptors(t); got != 0 {
		t.Errorf("%d programs are left open, want none", got)
	}
	if w.v2 {
		if got := len(oursOn(t, p)); got != 1 {
			t.Errorf("after 200 changes %d programs of ours are attached, want 1", got)
		}
	}
	if err := InForce(p, mustRules(t, "c 1:3 rwm", "c 195:199 rw",
		fmt.Sprintf("c 196:* %s", devrule.Access(1+199%7)))); err != nil {
		t.Error(err)
	}
	expect(t, a, n, devrule.Char, 195, 199, unix.O_RDWR, permitted)
	expect(t, a, n, devrule.Char, 195, 198, unix.O_RDWR, denied)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, opens)
}

// programDescriptors counts the programs that this process holds open.
func programDescriptors(t *testing.T) (n int) {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	must.NoError(t, err)
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "bpf-prog") {
			n++
		}
	}
	return n
}

// A node has some dozens of devices at most; what is tried is that nothing breaks long before it
// should.
func manyRules(t *testing.T, w world) {
	p, dir := w.job(t)
	var rules []devrule.Rule
	for i := range uint32(1000) {
		kind := devrule.Char
		if i%3 == 0 {
			kind = devrule.Block
		}
		rules = append(rules, devrule.Rule{Kind: kind, Major: 200 + i%40, Minor: i, Access: devrule.Access(1 + i%7)})
	}
	rules = append(rules, mustRules(t, "c 1:3 r", "c 4000:7 rw")...)
	must.NoError(t, Install(p, rules))
	a, n := member(t, dir), newNodes(t)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDONLY, opens)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, denied)
	expect(t, a, n, devrule.Char, 1, 5, unix.O_RDONLY, denied)
	expect(t, a, n, devrule.Char, 4000, 7, unix.O_RDWR, permitted) // the last rule
	expect(t, a, n, devrule.Char, 4000, 8, unix.O_RDWR, denied)
}

func again(t *testing.T, w world) {
	p, _ := w.job(t)
	mustInstall(t, p, "c 1:3 rw", "c 1:5 r")
	if w.v2 {
		before := oursOn(t, p)
		mustInstall(t, p, "c 1:5 r", "c 1:3 w", "c 1:3 r")
		if after := oursOn(t, p); len(after) != 1 || after[0] != before[0] {
			t.Errorf("the same rules again: programs %v, want %v", after, before)
		}
	}
	mustInstall(t, p, "c 1:3 rw", "c 1:5 r")
}

func inForce(t *testing.T, w world) {
	p, dir := w.job(t)
	rules := mustRules(t, "c 1:3 rw", "c 1:5 r")
	if InForce(p, rules) == nil || InForce(p, nil) == nil {
		t.Error("a cgroup without filter has one in force")
	}
	mustInstall(t, p, "c 1:3 rw", "c 1:5 r")
	if err := InForce(p, rules); err != nil {
		t.Error(err)
	}
	for _, other := range [][]string{{}, {"c 1:3 rw"}, {"c 1:3 rw", "c 1:5 rw"}, {"c 1:3 rw", "c 1:5 r", "c 1:7 r"},
		{"a *:* rwm"}} {
		if InForce(p, mustRules(t, other...)) == nil {
			t.Errorf("rules %q are in force, want %q only", other, texts(rules))
		}
	}
	mustInstall(t, p)
	if err := InForce(p, nil); err != nil {
		t.Error(err)
	}
	a, n := member(t, dir), newNodes(t)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDONLY, denied)
}

func installerDies(t *testing.T, w world) {
	p, dir := w.job(t)
	rules := []string{"c 1:3 rw"}
	installer := startActor(t)
	o := order{Do: "install", V2: p.V2, Rules: rules}
	if p.V1 != nil {
		o.V1 = dir.Path(".")
	}
	installer.do(o)
	installer.stop() // SIGKILL
	if err := InForce(p, mustRules(t, rules...)); err != nil {
		t.Error(err)
	}
	a, n := member(t, dir), newNodes(t)
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, opens)
	expect(t, a, n, devrule.Char, 1, 5, unix.O_RDONLY, denied)
	mustInstall(t, p, "c 1:5 rw")
	expect(t, a, n, devrule.Char, 1, 3, unix.O_RDWR, denied)
}

// underLoad changes rules while a process opens what it always may and what it never may.
func underLoad(t *testing.T, w world) {
	for name, replace := range map[string]bool{"by replacing": true, "as before Linux 5.6": false} {
		if !replace && !w.v2 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p, dir := w.job(t)
			sets := [][]devrule.Rule{
				mustRules(t, "c 1:3 rw", "c 1:5 r", "c 1:8 r"),
				mustRules(t, "c 1:3 rwm", "c 1:5 w", "c 1:9 r"),
				mustRules(t, "c 1:* w", "c *:3 rw", "c 195:* rw"),
			}
			mustInstall(t, p, "c 1:3 rw")
			n := newNodes(t)
			hammers := []*actor{member(t, dir), member(t, dir)}
			must.Eventually(t, "both open devices during changes", func() bool {
				for _, a := range hammers {
					// No set allows 1:5 for reading and writing, but "r" and "w" together would.
					a.do(order{Do: "hammer", Path: n.path(t, devrule.Char, 1, 3),
						Denied: n.path(t, devrule.Char, 1, 5), Flags: unix.O_RDWR})
				}
				for i := range 200 {
					must.NoError(t, install(p, sets[i%len(sets)], replace))
				}
				some := true
				for _, a := range hammers {
					a.send(order{})
					got := a.receive()
					if got.Failed > 0 || got.Through > 0 {
						t.Errorf("during changes: %d opens, %d that failed though allowed, %d let through though "+
							"denied; want some, none, none", got.Opens, got.Failed, got.Through)
					}
					some = some && got.Opens > 0
				}
				return some
			})
		})
	}
}

func gone(t *testing.T, w world) {
	p, dir := w.job(t)
	must.NoError(t, w.tree.Rmdir(filepath.Base(dir.Path("."))))
	if err := Install(p, nil); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		t.Errorf("install on a cgroup that is gone: %v, want not found", err)
	}
	if err := InForce(p, nil); err == nil {
		t.Error("a filter is in force on a cgroup that is gone")
	}
}

func TestInstallNeedsOnePlace(t *testing.T) {
	dir, err := kernfs.Open(t.TempDir())
	must.NoError(t, err)
	if err := Install(Place{V1: dir, V2: dir.Path(".")}, nil); err == nil {
		t.Error("install on two cgroups succeeded")
	}
	if err := Install(Place{}, nil); err == nil {
		t.Error("install on no cgroup succeeded")
	}
	if err := InForce(Place{}, nil); err == nil {
		t.Error("a filter is in force on no cgroup")
	}
}
