package mountns

import (
	"os"

	"golang.org/x/sys/unix"
)

// registers are those of a process that is stopped in a system call or at its end. The kernel has
// moved rip behind the instruction. It moves it back if orig_rax and rax say that the call has to
// be repeated (arch/x86/kernel/signal.c).
type registers struct{ unix.PtraceRegs }

var syscallCode = []byte{0x0f, 0x05} // syscall

// restartSys is ERESTARTSYS of include/linux/errno.h: the call was interrupted, and did nothing.
const restartSys = 512

func read(pid int) (r registers, err error) {
	return r, os.NewSyscallError("ptrace getregs", unix.PtraceGetRegs(pid, &r.PtraceRegs))
}

func (r registers) write(pid int) error {
	return os.NewSyscallError("ptrace setregs", unix.PtraceSetRegs(pid, &r.PtraceRegs))
}

// at returns where the instruction is.
func (r registers) at() uintptr { return uintptr(r.Rip) - uintptr(len(syscallCode)) }

// waits reports whether it is in wait4(2) or read(2), and has got nothing.
func (r registers) waits() bool {
	return (r.Orig_rax == unix.SYS_WAIT4 || r.Orig_rax == unix.SYS_READ) && int64(r.Rax) == -restartSys
}

// again returns the registers with which the call is done again.
func (r registers) again() registers {
	r.Rip, r.Rax, r.Orig_rax = uint64(r.at()), r.Orig_rax, ^uint64(0)
	return r
}

func (r registers) call(number, a, b, c uint64) registers {
	r = r.again()
	r.Rax, r.Rdi, r.Rsi, r.Rdx = number, a, b, c
	return r
}

func (r registers) result() uint64 { return r.Rax }
