package doctor

import (
	"fmt"

	"github.com/prometheus/procfs"

	"github.com/hookhost/hookhost/internal/config"
)

// examinePrivate reports whether jobs have a TMPDIR of theirs alone. daemon is the daemon's pid, or
// 0.
func (k *kernel) examinePrivate(proc procfs.FS, daemon int) []Finding {
	if !k.cfg.Private.TMP {
		return nil
	}
	same, known := sameMounts(proc, daemon, 1)
	return []Finding{examineTmp(k.cfg.Private, same, known)}
}

// examineTmp takes whether the daemon and the node's first process see the same mounts, if known.
func examineTmp(p config.Private, same, known bool) Finding {
	const what = "TMPDIR of jobs"
	if known && !same {
		return blocking(what, "the daemon has a mount namespace of its own, so no job would see its TMPDIR or start",
			"remove PrivateTmp=, ProtectSystem=, ProtectHome= and similar settings from hookhost.service")
	}
	size := "half of the node's memory"
	if p.TMPSize > 0 {
		size = p.TMPSize.String()
	}
	return ok(what, fmt.Sprintf("in memory, %s each, and counted as memory of the job", size))
}

// sameMounts reports whether two processes are in the same mount namespace. known is false without
// the permission to see that.
func sameMounts(proc procfs.FS, a, b int) (same, known bool) {
	var inodes [2]uint32
	for i, pid := range []int{a, b} {
		p, err := proc.Proc(pid)
		if err != nil || pid == 0 {
			return false, false
		}
		all, err := p.Namespaces()
		if err != nil {
			return false, false
		}
		inodes[i] = all["mnt"].Inode
	}
	return inodes[0] == inodes[1], true
}
