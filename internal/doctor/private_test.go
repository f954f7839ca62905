package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestPrivateDirectoriesAreExamined(t *testing.T) {
	proc, err := procfs.NewDefaultFS()
	must.NoError(t, err)
	dir := t.TempDir()
	sticky, open := filepath.Join(dir, "sticky"), filepath.Join(dir, "open")
	must.NoError(t, os.Mkdir(sticky, 0o700), os.Chmod(sticky, os.ModeSticky|0o777), os.Mkdir(open, 0o700),
		os.Chmod(open, 0o777))
	for _, tt := range []struct {
		name    string
		private config.Private
		minor   int // of Linux 5
		want    []Status
	}{
		{"off", config.Private{}, 10, nil},
		{"TMPDIR", config.Private{TMP: true}, 10, []Status{OK}},
		{"both", config.Private{TMP: true, TMPSize: 1 << 20, CleanIPC: true}, 10, []Status{OK, OK}},
		{"XDG_RUNTIME_DIR", config.Private{RuntimeDir: true}, 10, []Status{OK}},
		{"no such directory", config.Private{CleanDirs: []string{"/dev/none"}}, 10, []Status{OK, Degraded}},
		{"not sticky", config.Private{CleanDirs: []string{open}}, 10, []Status{OK, Impossible}},
		{"an old kernel", config.Private{CleanDirs: []string{sticky}}, 5, []Status{Impossible}},
		{"an old kernel without clean_dirs", config.Private{CleanIPC: true}, 5, []Status{OK}},
	} {
		k := &kernel{cfg: &config.File{Private: tt.private}, major: 5, minor: tt.minor}
		var got []Status
		for _, f := range k.examinePrivate(proc, rights{}) {
			got = append(got, f.Status)
			if f.Status != OK && f.Advice == "" {
				t.Errorf("%s: no advice: %+v", tt.name, f)
			}
		}
		must.Equal(t, tt.name, tt.want, got)
	}
	if os.Geteuid() == 0 {
		k := &kernel{cfg: &config.File{Private: config.Private{CleanDirs: []string{sticky}}}, major: 6}
		if all := k.examinePrivate(proc, rights{}); len(all) != 1 {
			t.Errorf("a good directory: %+v", all)
		}
	}
	hidden := examineTmpfs(config.Private{TMP: true, RuntimeDir: true}, true)
	for _, f := range hidden {
		if f.Status != Impossible || !f.Blocks {
			t.Errorf("another mount namespace: %+v", f)
		}
	}
	must.Equal(t, "findings about another mount namespace", 2, len(hidden))
	if same, known := sameMounts(proc, os.Getpid(), os.Getpid()); !same || !known {
		t.Errorf("one process: %t, %t", same, known)
	}
	if _, known := sameMounts(proc, 0, os.Getpid()); known {
		t.Error("without a daemon its namespace is not known")
	}
}

func TestDirectoriesLargerThanMemoryAreReported(t *testing.T) {
	const gib = 1 << 30
	roots := kernfstest.NewV2().Roots() // 16 GiB without swap
	for _, tt := range []struct {
		name    string
		private config.Private
		want    string // "" for no finding
	}{
		{"half of it", config.Private{TMP: true, Dirs: []config.PrivateDir{{Path: "/tmp"}}}, ""},
		{"all of it", config.Private{TMP: true, TMPSize: 16 * gib,
			Dirs: []config.PrivateDir{{Path: "/dev/shm", Size: 16 * gib}}}, ""},
		{"more", config.Private{TMP: true, TMPSize: 17 * gib}, "tmp_size = 17825792kb: more than"},
		{"more, but no TMPDIR", config.Private{TMPSize: 17 * gib}, ""},
		{"each", config.Private{TMP: true, TMPSize: 17 * gib,
			Dirs: []config.PrivateDir{{Path: "/tmp"}, {Path: "/dev/shm", Size: 17 * gib}}},
			"tmp_size = 17825792kb, size = 17825792kb of /dev/shm: more than the node's memory and swap, 16777216kb"},
	} {
		f, found := findingsOf(t, roots, func(c *config.File) { c.Private = tt.private })["size in memory"]
		if found != (tt.want != "") || found && (f.Status != Degraded || !strings.Contains(f.Found, tt.want)) {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

func TestFullBaseIsReported(t *testing.T) {
	for _, tt := range []struct {
		v             volume
		found, advice string // "" for no finding
	}{
		{volume{free: leastRoom}, "", ""},
		{volume{free: 4096}, "4 KiB left", "du -s /scratch/pbs_jobs/*"},
		{volume{free: 1 << 40, noInodes: true}, "no inodes left", "du -s --inodes /scratch/pbs_jobs/*"},
	} {
		tt.v.dir = "/scratch"
		all := tt.v.examineBase("pbs_jobs")
		if tt.found == "" && len(all) == 0 {
			continue
		}
		if len(all) != 1 || all[0].Status != Degraded || all[0].Blocks || !strings.HasPrefix(all[0].Found, tt.found) ||
			!strings.Contains(all[0].Advice, tt.advice) {
			t.Errorf("%+v: %+v, want %q", tt.v, all, tt.found)
		}
	}
}

// Two directories may have one base.
func TestEachBaseIsExaminedOnce(t *testing.T) {
	kernfstest.NeedRoot(t)
	base := t.TempDir()
	must.NoError(t, unix.Mount("hookhost-test", base, "tmpfs", 0, "mode=755,size=64k"))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(base, unix.MNT_DETACH)) })
	k := &kernel{cfg: &config.File{Private: config.Private{Dirs: []config.PrivateDir{{Path: "/tmp", Base: base},
		{Path: "/var/tmp", Base: base}, {Path: "/dev/shm"}, {Path: "/x", Base: base + "/none"}}}}}
	if all := k.examineBases(); len(all) != 1 || all[0].What != "base "+base {
		t.Errorf("%+v", all)
	}
}

func TestNamespacesOfJobsAreExamined(t *testing.T) {
	kernfstest.NeedRoot(t)
	sticky, base := filepath.Join(t.TempDir(), "sticky"), t.TempDir()
	must.NoError(t, os.Mkdir(sticky, 0o700), os.Chmod(sticky, os.ModeSticky|0o777), os.Chmod(base, 0o755))
	all := rights{capabilities: ^uint64(0), known: true}
	good := []config.PrivateDir{{Path: sticky, Base: base}, {Path: "/dev/shm", Size: 1 << 20}}
	for _, tt := range []struct {
		name        string
		dirs        []config.PrivateDir
		may         rights
		minor       int // of Linux 5
		untraceable bool
		want        Status
	}{
		{"good", good, all, 10, false, OK},
		{"a user asks", good, rights{uid: 1000, known: true}, 10, false, Unknown},
		{"an old kernel", good, all, 5, false, Impossible},
		{"no process can be traced", good, all, 10, true, Impossible},
		{"the unit without its drop-in", good, rights{known: true}, 10, false, Impossible},
		{"not sticky", []config.PrivateDir{{Path: base}}, all, 10, false, Impossible},
		{"no base", []config.PrivateDir{{Path: sticky, Base: "/there/is/none"}}, all, 10, false, Impossible},
		{"a base that users can write to", []config.PrivateDir{{Path: "/dev/shm", Base: sticky}}, all, 10, false,
			Impossible},
		{"a wrong option", []config.PrivateDir{{Path: sticky, Options: "mpol=none"}}, all, 10, false, Impossible},
	} {
		k := &kernel{cfg: &config.File{Private: config.Private{Dirs: tt.dirs}}, major: 5, minor: tt.minor}
		f := k.examineDirs(tt.may, tt.untraceable)
		if f.Status != tt.want || f.Blocks != (tt.want == Impossible) || f.Status == Impossible && f.Advice == "" {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}
