package devfilter

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// programName is how a program of ours is known among those on a cgroup. The kernel keeps 15 bytes.
const programName = "hookhost_dev"

func spec(insns asm.Instructions) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name:         programName,
		Type:         ebpf.CGroupDevice,
		License:      "Apache-2.0",
		Instructions: insns,
	}
}

// Probe reports whether the kernel takes such programs. Probe loads one, opens it by its id as
// Install does with those that it finds, and lets go of it. Nothing is attached. Probe fails where
// the kernel has no CONFIG_CGROUP_BPF (EINVAL) or we lack the right (EPERM): CAP_SYS_ADMIN. CAP_BPF
// is enough to load one, but not to open it (bpf_prog_get_fd_by_id).
func Probe() error {
	p, err := load(Compile([]Rule{{Char, 1, 3, Read}}))
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

// load gives a program to the kernel. The error has the end of the verifier's log.
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

// countsLocked reports whether the kernel counts programs as locked memory of the user, as Linux
// did before 5.11. The version has to do: cilium/ebpf takes a load that fails for this reason for a
// kernel without program names, for good.
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

// withMemlock runs do with RLIMIT_MEMLOCK out of its way, as far as we may, if it is in the way.
// The limit is put back: programs that are started later inherit it.
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
