package cgroup

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Lines of a mount table, as written by kernels.
const (
	mountCPU     = "36 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct\n"
	mountMemory  = "37 25 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:16 - cgroup cgroup rw,memory\n"
	mountCpuset  = "38 25 0:31 / /sys/fs/cgroup/cpuset rw shared:17 master:3 - cgroup cgroup rw,cpuset,noprefix\n"
	mountSystemd = "27 25 0:24 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd\n"
	mountUnified = "26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV2      = "29 23 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
	mountRoot    = "21 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
)

func TestParseMountinfo(t *testing.T) {
	long := "90 1 0:99 / /overlay rw - overlay overlay rw,lowerdir=" + strings.Repeat("/a:", 40<<10) + "\n"
	for _, tt := range []struct {
		name, text string
		want       []Mount
	}{
		{"empty", "", nil},
		{"none", mountRoot, nil},
		{"v1", mountRoot + mountCPU + mountSystemd, []Mount{
			{Point: "/sys/fs/cgroup/cpu,cpuacct", Root: "/", controllers: []string{"rw", "cpu", "cpuacct"}},
			{Point: "/sys/fs/cgroup/systemd", Root: "/",
				controllers: []string{"rw", "xattr", "release_agent=/x", "name=systemd"}},
		}},
		{"v2", mountV2, []Mount{{Point: "/sys/fs/cgroup", Root: "/", V2: true,
			Options: []string{"rw", "nsdelegate", "memory_recursiveprot"}}}},
		{"a line of 120 KiB", long + mountV2,
			[]Mount{{Point: "/sys/fs/cgroup", Root: "/", V2: true,
				Options: []string{"rw", "nsdelegate", "memory_recursiveprot"}}}},
		{"escapes", `5 1 0:9 /a\040b /mnt/c\011\134d rw - cgroup2 none rw` + "\n",
			[]Mount{{Point: "/mnt/c\t\\d", Root: "/a b", V2: true, Options: []string{"rw"}}}},
		{"hidden", mountUnified + "99 25 0:50 / /sys/fs/cgroup/unified rw - tmpfs tmpfs rw\n", nil},
		{"no newline at the end", strings.TrimSuffix(mountV2, "\n"),
			[]Mount{{Point: "/sys/fs/cgroup", Root: "/", V2: true,
				Options: []string{"rw", "nsdelegate", "memory_recursiveprot"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseMountinfo([]byte(tt.text))
			must.NoError(t, err)
			must.Equal(t, "", tt.want, got, cmp.AllowUnexported(Mount{}), cmpopts.EquateEmpty())
		})
	}
	for _, text := range []string{"banana\n", "1 2 3 - cgroup\n", "1 2 0:1 / /x rw\n", "1 2 0:1 / /x rw - \n"} {
		if got, err := parseMountinfo([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add(mountRoot + mountCPU + mountMemory)
	f.Add(mountV2)
	f.Add(`5 1 0:9 / /mnt/c\0 rw - cgroup none rw`)
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := parseMountinfo([]byte(text))
		if err != nil && mounts != nil {
			t.Errorf("an error and %v", mounts)
		}
		if chosen, err := choose(mounts, "/sys/fs/cgroup", Options{}); err == nil && len(chosen) == 0 {
			t.Error("nothing was chosen, and no error")
		}
	})
}

func TestChooseFindsModeAndMountsOfControllers(t *testing.T) {
	net := func(point string) string {
		return strings.ReplaceAll(strings.ReplaceAll(mountCPU, "/sys/fs/cgroup/cpu,cpuacct", point), "cpu,cpuacct",
			"net_cls,net_prio")
	}
	mnt := func(point string) string { return strings.ReplaceAll(mountMemory, "/sys/fs/cgroup/memory", point) }
	for _, tt := range []struct {
		name, text string
		mode       Mode
		want       []string // point: controllers
		err        string
		asked      []string
	}{
		{name: "v1", text: mountCPU + mountCpuset + mountMemory + mountSystemd, want: []string{
			"/sys/fs/cgroup/memory: memory", "/sys/fs/cgroup/cpuset: cpuset",
			"/sys/fs/cgroup/cpu,cpuacct: cpu cpuacct"}},
		{name: "hybrid", text: mountMemory + mountUnified,
			want: []string{"/sys/fs/cgroup/memory: memory", "/sys/fs/cgroup/unified: "}},
		{name: "hybrid without v2", text: mountMemory + mountUnified, mode: ModeV1,
			want: []string{"/sys/fs/cgroup/memory: memory"}},
		{name: "hybrid without v1", text: mountMemory + mountUnified, mode: ModeV2,
			want: []string{"/sys/fs/cgroup/unified: "}},
		{name: "v2", text: mountV2, want: []string{"/sys/fs/cgroup: "}},
		{name: "only a named hierarchy beside v2", text: mountV2 + mountSystemd, want: []string{"/sys/fs/cgroup: "}},
		{name: "shortest path", text: mnt("/sys/fs/cgroup/x/memory") + mountMemory + mnt("/sys/fs/cgroup/memory2"),
			want: []string{"/sys/fs/cgroup/memory: memory"}},
		{name: "one inside, one outside", text: mnt("/lxc") + mountMemory,
			want: []string{"/sys/fs/cgroup/memory: memory"}},
		{name: "outside", text: mnt("/cgroup/memory") + mountCpuset,
			err: "memory controller is mounted on /cgroup/memory"},
		{name: "v2 outside", text: strings.ReplaceAll(mountV2, "/sys/fs/cgroup", "/cg2"), err: "/cg2"},
		{name: "v2 outside beside v1", text: mountMemory + strings.ReplaceAll(mountV2, "/sys/fs/cgroup", "/cg2"),
			want: []string{"/sys/fs/cgroup/memory: memory"}},
		{name: "nobody asked", text: mountMemory + net("/sys/fs/cgroup/net"),
			want: []string{"/sys/fs/cgroup/memory: memory"}},
		{name: "mounted together", text: mountMemory + net("/sys/fs/cgroup/net"), asked: placing,
			want: []string{"/sys/fs/cgroup/memory: memory", "/sys/fs/cgroup/net: net_cls net_prio"}},
		{name: "one of two", text: mountMemory + net("/sys/fs/cgroup/net"), asked: []string{"net_prio", "rdma"},
			want: []string{"/sys/fs/cgroup/memory: memory", "/sys/fs/cgroup/net: net_prio"}},
		{name: "beside v2", text: net("/sys/fs/cgroup/net") + mountV2, asked: placing,
			want: []string{"/sys/fs/cgroup: ", "/sys/fs/cgroup/net: net_cls net_prio"}},
		{name: "beside both", text: net("/sys/fs/cgroup/net") + mountUnified + mountMemory, asked: placing,
			want: []string{"/sys/fs/cgroup/memory: memory", "/sys/fs/cgroup/unified: ",
				"/sys/fs/cgroup/net: net_cls net_prio"}},
		{name: "alone", text: net("/sys/fs/cgroup/net"), asked: placing, err: "neither"},
		{name: "what nobody asked for outside", text: mountMemory + net("/net"),
			want: []string{"/sys/fs/cgroup/memory: memory"}},
		{name: "what was asked for outside", text: mountMemory + net("/net"), asked: placing,
			err: "net_cls controller is mounted on /net"},
		{name: "nothing", text: mountRoot + mountSystemd, err: "neither"},
		{name: "a similar name is not inside", text: mnt("/sys/fs/cgroup2"), err: "outside"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mounts, err := parseMountinfo([]byte(tt.text))
			must.NoError(t, err)
			chosen, err := choose(mounts, "/sys/fs/cgroup", Options{Mode: tt.mode, Controllers: tt.asked})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want one with %q", err, tt.err)
				}
				return
			}
			must.NoError(t, err)
			var got []string
			for _, m := range chosen {
				got = append(got, m.Point+": "+strings.Join(m.controllers, " "))
			}
			must.Equal(t, "", tt.want, got)
		})
	}
}

func TestDetectFake(t *testing.T) {
	for _, tt := range []struct {
		name        string
		kernel      *kernfstest.Kernel
		opt         Options
		mode        Mode
		controllers string
		err         string
	}{
		{name: "v1", kernel: kernfstest.NewV1(), mode: ModeV1,
			controllers: "memory cpuset cpu cpuacct pids freezer devices hugetlb"},
		{name: "v1 without pids", kernel: kernfstest.NewV1(kernfstest.Without("pids")), mode: ModeV1,
			controllers: "memory cpuset cpu cpuacct freezer devices hugetlb"},
		{name: "hybrid", kernel: kernfstest.NewHybrid(), mode: ModeHybrid,
			controllers: "memory cpuset cpu cpuacct pids freezer devices"},
		{name: "hybrid, v1 only", kernel: kernfstest.NewHybrid(), opt: Options{Mode: ModeV1}, mode: ModeV1,
			controllers: "memory cpuset cpu cpuacct pids freezer devices"},
		{name: "hybrid, v2 only", kernel: kernfstest.NewHybrid(), opt: Options{Mode: ModeV2}, mode: ModeV2},
		{name: "v2, nothing delegated", kernel: kernfstest.NewV2(), mode: ModeV2},
		{name: "v1 with more", kernel: kernfstest.NewV1(), opt: Options{Controllers: placing}, mode: ModeV1,
			controllers: "memory cpuset cpu cpuacct pids freezer devices hugetlb " +
				"blkio net_cls net_prio perf_event rdma"},
		{name: "v2 with more", kernel: kernfstest.NewV2(),
			opt: Options{Controllers: placing, EnableIfThere: []string{"rdma", "net_cls"}}, mode: ModeV2,
			controllers: "rdma"},
		{name: "named mount", kernel: kernfstest.NewHybrid(), opt: Options{Mount: "/sys/fs/cgroup/"}, mode: ModeHybrid,
			controllers: "memory cpuset cpu cpuacct pids freezer devices"},
		{name: "mount inside", kernel: kernfstest.NewHybrid(), opt: Options{Mount: "/sys/fs/cgroup/unified"},
			err: "outside of /sys/fs/cgroup/unified"},
		{name: "relative mount", kernel: kernfstest.NewHybrid(), opt: Options{Mount: "cgroup"},
			err: "not an absolute path"},
		{name: "bad prefix", kernel: kernfstest.NewHybrid(), opt: Options{Prefix: "../x"}, err: "not a plain name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Detect(tt.kernel.Roots(), tt.opt)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want one with %q", err, tt.err)
				}
				return
			}
			must.NoError(t, err)
			if tree.Mode() != tt.mode || strings.Join(tree.Controllers(), " ") != tt.controllers {
				t.Errorf("mode %v, controllers %v", tree.Mode(), tree.Controllers())
			}
			if journal := tt.kernel.Journal(); len(journal) != 0 {
				t.Errorf("Detect changed something: %v", journal)
			}
		})
	}
}

// TestPrepareAgain: Prepare does not write again what is already there.
func TestPrepareAgain(t *testing.T) {
	for name, boot := range map[string]func(...kernfstest.Option) *kernfstest.Kernel{"v1": kernfstest.NewV1,
		"v2": kernfstest.NewV2} {
		t.Run(name, func(t *testing.T) {
			k := boot()
			tree := fakeTree(t, k)
			k.ResetJournal()
			must.NoError(t, tree.Prepare())
			for _, op := range k.Journal() {
				if op.Op == "write" {
					t.Errorf("written again: %v", op)
				}
			}
		})
	}
}

// A path in /proc/PID/cgroup belongs to a job if it begins with the jobs' parent, as seen from the
// mounted root. Below a directory that was delegated to a user, the user can choose any name.
func TestJobAt(t *testing.T) {
	for _, tt := range []struct {
		root, dir, want string
	}{
		{"/", "/pbs_jobs.service/jobid/1.srv", "1.srv"},
		{"/", "/pbs_jobs.service/jobid/1.srv/container/inner", "1.srv"},
		{"/docker/7", "/docker/7/pbs_jobs.service/jobid/1.srv", "1.srv"},
		{"/../..", "/../../pbs_jobs.service/jobid/1.srv", "1.srv"},
		{"/", "/user.slice/user@1000.service/pbs_jobs.service/jobid/1.srv", ""},
		{"/", "/pbs_jobs.service/jobid/x/pbs_jobs.service/jobid/1.srv", ""},
		{"/docker/7", "/pbs_jobs.service/jobid/1.srv", ""},
		{"/", "/x:pbs_jobs.service/jobid/1.srv", ""},
		{"/", "/pbs_jobs.service/jobid", ""},
		{"/", "/pbs_jobs.service/jobid/", ""},
		{"/", "/", ""},
		{"/", "", ""},
	} {
		h := &hierarchy{root: tt.root, unit: "pbs_jobs.service", leaf: "jobid"}
		if got, ok := h.jobAt(tt.dir); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("jobAt(%q) below %q = %q, %t, want %q", tt.dir, tt.root, got, ok, tt.want)
		}
	}
}

func TestModeString(t *testing.T) {
	for m, want := range map[Mode]string{ModeV1: "v1", ModeHybrid: "hybrid", ModeV2: "v2", 9: "Mode(9)"} {
		if m.String() != want {
			t.Errorf("%d is %q", int(m), m.String())
		}
	}
}

// TestDetectKernel: the mount table of the running kernel can be parsed.
func TestDetectKernel(t *testing.T) {
	w := needKernel(t, 0)
	tree, err := Detect(w.roots, Options{})
	must.NoError(t, err)
	if _, err := os.Stat("/sys/fs/cgroup/memory/tasks"); err == nil && !slices.Contains(tree.Controllers(), "memory") {
		t.Errorf("memory is mounted, controllers are %v", tree.Controllers())
	}
	if u := tree.Has("unknown"); u {
		t.Error("an unknown feature is there")
	}
}
