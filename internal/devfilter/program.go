package devfilter

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/devrule"
)

// programName identifies our programs among those on a cgroup. The kernel stores 15 bytes.
const programName = "hookhost_dev"

func spec(insns asm.Instructions) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name:         programName,
		Type:         ebpf.CGroupDevice,
		License:      "Apache-2.0",
		Instructions: insns,
	}
}

// Probe reports whether the kernel accepts such programs. It loads one, opens it by its id as
// Install does with existing ones, and releases it. It attaches nothing. Probe fails if the kernel
// has no CONFIG_CGROUP_BPF (EINVAL) or CAP_SYS_ADMIN is missing (EPERM). CAP_BPF is enough to load
// a program, but not to open it (bpf_prog_get_fd_by_id).
func Probe() error {
	p, err := load(Compile([]devrule.Rule{{Kind: devrule.Char, Major: 1, Minor: 3, Access: devrule.Read}}))
	if err != nil {
		return err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return fmt.Errorf("read device filter: %w", err)
	}
	id, _ := info.ID()
	same, err := ebpf.NewProgramFromID(id)
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("open device filter %d: %w: it takes CAP_SYS_ADMIN", id, unix.EPERM)
	case err != nil:
		return fmt.Errorf("open device filter %d: %w", id, err)
	}
	return same.Close()
}

// load loads a program into the kernel. Errors include the end of the verifier's log.
func load(insns asm.Instructions) (*ebpf.Program, error) {
	var p *ebpf.Program
	err := withMemlock(countsLocked(), func() (err error) {
		p, err = ebpf.NewProgram(spec(insns))
		return err
	})
	if err == nil {
		return p, nil
	}
	var refused *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("load device filter: %w: it takes CAP_SYS_ADMIN, and before Linux 5.11 locked memory "+
			"(RLIMIT_MEMLOCK)", unix.EPERM)
	case errors.As(err, &refused) && len(refused.Log) > 0:
		log := refused.Log[max(0, len(refused.Log)-20):]
		return nil, fmt.Errorf("load device filter: %w\nthe verifier's log ends with:\n\t%s", refused.Cause,
			strings.Join(log, "\n\t"))
	case errors.Is(err, unix.EINVAL):
		return nil, fmt.Errorf("load device filter: %w: the kernel needs CONFIG_CGROUP_BPF", unix.EINVAL)
	}
	return nil, fmt.Errorf("load device filter: %w", err)
}

// countsLocked reports whether the kernel counts programs as the user's locked memory, as Linux did
// before 5.11. It goes by the version. If a load failed for this reason, cilium/ebpf would
// permanently conclude that the kernel has no program names.
func countsLocked() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major < 5 || major == 5 && minor < 11
}

var memlock sync.Mutex

// withMemlock runs do with RLIMIT_MEMLOCK raised as far as possible, if the limit is in the way. It
// restores the limit, since programs that are started later inherit it.
func withMemlock(inTheWay bool, do func() error) error {
	if !inTheWay {
		return do()
	}
	memlock.Lock()
	defer memlock.Unlock()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		return fmt.Errorf("getrlimit memlock: %w", err)
	}
	raised := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	if raised != nil { // without CAP_SYS_RESOURCE
		raised = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: before.Max, Max: before.Max})
	}
	err := do()
	if raised == nil {
		err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before))
	}
	return err
}
