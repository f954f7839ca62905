package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// initialCgroupNamespace is the namespace in which a kernel boots (PROC_CGROUP_INIT_INO).
const initialCgroupNamespace = "cgroup:[4026531835]"

// cgroupNamespace returns the cgroup namespace of this process, or "" if the kernel does not say.
func cgroupNamespace() string {
	link, err := os.Readlink("/proc/self/ns/cgroup")
	if err != nil {
		return ""
	}
	return link
}

// bootV2 says how a node gets all controllers on v2.
const bootV2 = "boot with systemd.unified_cgroup_hierarchy=1; without systemd, with cgroup_no_v1=all"

// examineCgroups reports how cgroups are mounted, who owns them and which controllers jobs get.
func (k *kernel) examineCgroups(namespace string) []Finding {
	findings := []Finding{k.examineMode()}
	findings = append(findings, k.examineNamespace(namespace)...)
	findings = append(findings, k.examineNesting()...)
	if err := k.trusted(); err != nil {
		findings = append(findings, blocking("attributes of cgroups", err.Error(),
			"give hookhost CAP_SYS_ADMIN; without trusted.* attributes cgroups cannot be marked as a job's"))
	}
	for _, u := range k.uses() {
		findings = append(findings, k.examineController(u))
	}
	return findings
}

func (k *kernel) examineMode() Finding {
	const what = "cgroups"
	switch k.tree.Mode() {
	case cgroup.ModeV1:
		return degraded(what, "v1 only: jobs are killed process by process and moved by pid",
			"mount -t cgroup2 none /sys/fs/cgroup/unified; better, "+bootV2)
	case cgroup.ModeV2:
		return k.examineMoves(ok(what, "v2"))
	}
	var v1, v2 []string
	for _, c := range k.tree.Controllers() {
		if slices.Contains(k.words("cgroup.controllers"), c) {
			v2 = append(v2, c)
		} else {
			v1 = append(v1, c)
		}
	}
	return k.examineMoves(ok(what, fmt.Sprintf("hybrid: jobs get %s on v1 and %s on v2; "+
		"the v2 tree also serves to kill, freeze and start processes", list(v1), list(v2))))
}

func list(words []string) string {
	if len(words) == 0 {
		return "no controller"
	}
	return strings.Join(words, ", ")
}

// examineMoves adds to the finding about a v2 tree how long the kernel takes to move a process.
func (k *kernel) examineMoves(f Finding) Finding {
	inForce := slices.ContainsFunc(k.mounts, func(m cgroup.Mount) bool {
		return slices.Contains(m.Options, "favordynmods")
	})
	switch {
	case inForce:
		f.Found += "; processes are moved without a wait (favordynmods), fork and exit take a little longer"
	case k.since(6, 0):
		f.Found += "; the first process in a while that is moved into a job (attach, launch by pbs_mom) " +
			"waits some milliseconds for the kernel"
		f.Advice = "mount -o remount,favordynmods " + k.v2.Path(".") + " avoids the wait, but makes fork and exit " +
			"a little slower: for nodes with many short jobs"
	}
	return f
}

// examineNamespace reports how a container restricts the tree; nothing on a plain node.
func (k *kernel) examineNamespace(namespace string) []Finding {
	const what = "cgroup namespace"
	for _, m := range k.mounts {
		if m.Root != "/" {
			return []Finding{degraded(what,
				fmt.Sprintf("%s shows %s of the hierarchy only: this is a container", m.Point, m.Root),
				"the container's limits apply to all jobs together; run hookhost on the host, "+
					"or mount the host's /sys/fs/cgroup into the container")}
		}
	}
	if namespace == "" || namespace == initialCgroupNamespace {
		return nil
	}
	return []Finding{degraded(what, "this process is in its own cgroup namespace ("+namespace+"): "+
		"the root that it sees is only a part of the host's tree",
		"run hookhost in the host's cgroup namespace (docker run --cgroupns=host, podman run --cgroupns=host)")}
}

// examineNesting reports whether the visible tree can be changed; nothing on a plain node.
func (k *kernel) examineNesting() []Finding {
	const what = "place in the tree"
	for _, m := range k.mounts {
		if m.ReadOnly {
			return []Finding{blocking(what,
				m.Point+" is mounted read-only, as in a container: no cgroup can be created",
				"mount -o remount,rw "+m.Point+"; for a container, give it the host's /sys/fs/cgroup read-write")}
		}
	}
	// The root of a hierarchy has no type (cgroup-v2.rst). If it has one, it is not the real root.
	if k.v2 == nil || !k.v2.Exists("cgroup.type") {
		return nil
	}
	pids, err := k.v2.ReadFile("cgroup.procs")
	if err == nil && len(pids) > 0 && len(k.words("cgroup.subtree_control")) == 0 {
		return []Finding{degraded(what, "the visible root of the v2 tree is a cgroup that contains processes: "+
			"it cannot pass controllers down", "give hookhost's unit or container Delegate=yes, "+
			"and move its processes into a cgroup below (DelegateSubgroup=, systemd 254)")}
	}
	return []Finding{degraded(what, "the visible root of the v2 tree is below another cgroup, "+
		"whose limits apply to all jobs together",
		"run hookhost on the host; or give its unit or container Delegate=yes, and no limits")}
}

// examineFeatures reports what individual interface files make possible.
func (k *kernel) examineFeatures() []Finding {
	return []Finding{
		k.examineFeature(feature{"cgroup.kill", "kill", "cgroup.kill", "a job of any size is killed in one step",
			"jobs are killed process by process", "Linux 5.14 or newer, with a cgroup v2 tree mounted"}),
		k.examineFeature(feature{"freezer", "freeze", "cgroup.freeze", "jobs can be suspended in one step",
			"suspended jobs get SIGSTOP only", "Linux 5.2 or newer with a cgroup v2 tree, or the v1 freezer"}),
	}
}
