package mountns

import (
	"os"

	"golang.org/x/sys/unix"
)

// registers are those of a process that is stopped in a system call or at its end. If the call has
// to be repeated, the kernel has moved pc back to the instruction, and restored x0, before the
// process stops (arch/arm64/kernel/signal.c, do_signal).
type registers struct{ unix.PtraceRegsArm64 }

var syscallCode = []byte{0x01, 0x00, 0x00, 0xd4} // svc #0

const prStatus = 1 // NT_PRSTATUS of include/uapi/linux/elf.h

func read(pid int) (r registers, err error) {
	return r, os.NewSyscallError("ptrace getregset", unix.PtraceGetRegSetArm64(pid, prStatus, &r.PtraceRegsArm64))
}

func (r registers) write(pid int) error {
	return os.NewSyscallError("ptrace setregset", unix.PtraceSetRegSetArm64(pid, prStatus, &r.PtraceRegsArm64))
}

// at returns where the instruction is.
func (r registers) at() uintptr { return uintptr(r.Pc) }

// waits reports whether it is in wait4(2) or read(2), and has got nothing.
func (r registers) waits() bool { return r.Regs[8] == unix.SYS_WAIT4 || r.Regs[8] == unix.SYS_READ }

// again returns the registers with which the call is done again.
func (r registers) again() registers { return r }

func (r registers) call(number, a, b, c uint64) registers {
	r.Regs[8], r.Regs[0], r.Regs[1], r.Regs[2] = number, a, b, c
	return r
}

func (r registers) result() uint64 { return r.Regs[0] }
