package kernfstest

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// procfs is /proc. Each open creates it anew, so it always shows the current state.
type procfs struct{ k *Kernel }

func (p *procfs) OpenFile(name string, flag int) (kernfs.File, error) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if err := p.k.fail("open", "proc/"+name); err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(name, "/")
	return p.k.procTree(first).OpenFile(name, flag)
}

func (p *procfs) Mkdir(name string, perm fs.FileMode) error { return tree{}.Mkdir(name, perm) }
func (p *procfs) Rmdir(name string) error                   { return tree{}.Rmdir(name) }

// procTree returns the files that a name starting with first may need.
func (k *Kernel) procTree(first string) tree {
	t := tree{files: maps.Clone(k.procFiles), links: map[string]string{"self": strconv.Itoa(k.self)}}
	t.files["meminfo"] = k.machine.meminfo(k.reclaimable())
	for pid, p := range k.procs {
		if first == "." || first == strconv.Itoa(pid) || pid == k.self {
			maps.Copy(t.files, p.files(k))
		}
	}
	return t
}

// fixedFiles are the files that no process changes.
func (k *Kernel) fixedFiles() map[string]string {
	return map[string]string{
		"cgroups":                   k.cgroupsFile(),
		"sys/kernel/random/boot_id": "6c7d2f0e-51b0-4d0c-9f27-3a1f4a4f3b1e\n",
		"sys/kernel/osrelease":      "6.18.0\n",
		"sys/kernel/pid_max":        k.machine.pidMax(),
		"sys/kernel/threads-max":    k.machine.threadsMax(),
	}
}

// onV1 reports whether a v1 hierarchy has a controller.
func (k *Kernel) onV1(controller string) bool {
	return slices.ContainsFunc(k.hierarchies, func(h *hierarchy) bool {
		return !h.v2 && slices.Contains(h.controllers, controller)
	})
}

func (k *Kernel) cgroupsFile() string {
	var b strings.Builder
	b.WriteString("#subsys_name\thierarchy\tnum_cgroups\tenabled\n")
	for _, h := range k.hierarchies {
		names := h.controllers
		if h.v2 {
			names = slices.Concat(names, slices.DeleteFunc(slices.Clone(unnamed), k.onV1))
		}
		for _, c := range k.available(names) {
			if !strings.HasPrefix(c, "name=") {
				fmt.Fprintf(&b, "%s\t%d\t1\t1\n", c, h.id)
			}
		}
	}
	return b.String()
}

// mountinfo returns proc(5)'s table of mounts.
func (k *Kernel) mountinfo() string {
	var b strings.Builder
	b.WriteString("21 20 0:20 / / rw,relatime - ext4 /dev/vda1 rw\n" +
		"22 21 0:21 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n" +
		"23 21 0:22 / /sys rw,nosuid,nodev,noexec,relatime - sysfs sysfs rw\n")
	if k.top == "tmpfs" {
		b.WriteString("31 23 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec - tmpfs tmpfs ro,mode=755\n")
	}
	for i, h := range k.hierarchies {
		at, up := "/sys/fs/cgroup", 23
		if h.dir != "" {
			at, up = at+"/"+h.dir, 31
		}
		kind, opts := "cgroup", ","+strings.Join(h.controllers, ",")
		if h.v2 {
			kind, opts = "cgroup2", ""
			for _, o := range k.options {
				opts += "," + o
			}
		}
		fmt.Fprintf(&b, "%d %d 0:%d / %s rw,nosuid,nodev,noexec,relatime - %s %s rw%s\n",
			32+i, up, 29+i, at, kind, kind, opts)
	}
	return b.String()
}

// files returns /proc/PID.
func (p *process) files(k *Kernel) map[string]string {
	dir := strconv.Itoa(p.pid) + "/"
	return map[string]string{
		dir + "stat":      p.stat(),
		dir + "status":    p.status(k),
		dir + "cgroup":    p.cgroupFile(),
		dir + "comm":      p.comm + "\n",
		dir + "mountinfo": k.mountinfo(),
		dir + "environ":   p.environ,
	}
}

// stat returns proc(5)'s line. Fields that the fake does not know are 0.
func (p *process) stat() string {
	f := make([]string, 53)
	for i := range f {
		f[i] = "0"
	}
	set := func(field int, n int64) { f[field] = strconv.FormatInt(n, 10) }
	set(1, int64(p.pid))
	f[2] = "(" + p.comm + ")"
	f[3] = string(p.state())
	set(4, int64(p.ppid))
	set(5, int64(p.pgid))
	set(6, int64(p.sid))
	set(14, int64(p.cpuTime/(time.Second/userHZ)))
	set(20, 1)
	set(22, int64(p.start))
	set(24, p.rss()/pageSize)
	return strings.Join(f[1:], " ") + "\n"
}

func (p *process) status(k *Kernel) string {
	var b strings.Builder
	state := map[byte]string{'S': "S (sleeping)", 'D': "D (disk sleep)", 'Z': "Z (zombie)"}[p.state()]
	fmt.Fprintf(&b, "Name:\t%s\nState:\t%s\nTgid:\t%[3]d\nPid:\t%[3]d\nPPid:\t%d\n", p.comm, state, p.pid, p.ppid)
	fmt.Fprintf(&b, "Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", p.uid)
	if !p.zombie { // a zombie has no memory
		fmt.Fprintf(&b, "VmRSS:\t%8d kB\nRssAnon:\t%8d kB\nRssFile:\t%8d kB\nRssShmem:\t%8d kB\n",
			p.rss()/1024, (p.rss()-p.shmem)/1024, 0, p.shmem/1024)
	}
	allowedCPUs, allowedMems := k.machine.online(), k.machine.nodes()
	for h, g := range p.in {
		if slices.Contains(h.controllers, "cpuset") {
			allowedCPUs, allowedMems = cpus.effective(g), mems.effective(g)
		}
	}
	fmt.Fprintf(&b, "Threads:\t1\nCpus_allowed_list:\t%s\nMems_allowed_list:\t%s\n", allowedCPUs, allowedMems)
	return b.String()
}
