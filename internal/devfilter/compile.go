package devfilter

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cilium/ebpf/asm"

	"github.com/hookhost/hookhost/internal/devrule"
)

// The program's argument (struct bpf_cgroup_dev_ctx of linux/bpf.h) is three 32-bit numbers.
const (
	ctxAccess = 0 // the access in the upper 16 bits, the kind in the lower ones
	ctxMajor  = 4
	ctxMinor  = 8

	devBlock = 1 // BPF_DEVCG_DEV_BLOCK
	devChar  = 2 // BPF_DEVCG_DEV_CHAR
)

// Compile returns the program of type BPF_PROG_TYPE_CGROUP_DEVICE that allows what
// devrule.Allows does. Equivalent rules result in the same instructions. Printed with %v it is a
// listing for people, with a comment for each rule.
//
// Each rule is a block of at most 6 instructions that leads to the next one or ends the program, so
// no jump is far. The verifier needs some 80 steps for each of 1000 rules, and may use a million.
// Before Linux 5.2 a program had at most 4096 instructions, which is enough for some 700 rules.
func Compile(rules []devrule.Rule) asm.Instructions {
	rules = devrule.Normalise(rules)
	if len(rules) == 0 {
		return asm.Instructions{
			commented(asm.Mov.Imm(asm.R0, 0), "no rule: denied"),
			asm.Return(),
		}
	}
	program := asm.Instructions{
		commented(asm.LoadMem(asm.R2, asm.R1, ctxAccess, asm.Word), "r2 kind, r3 access, r4 major, r5 minor"),
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.RSh.Imm(asm.R3, 16),
		asm.And.Imm(asm.R2, 0xffff),
		asm.LoadMem(asm.R4, asm.R1, ctxMajor, asm.Word),
		asm.LoadMem(asm.R5, asm.R1, ctxMinor, asm.Word),
	}
	for i, r := range rules {
		next := label(i + 1)
		if i+1 == len(rules) {
			next = "deny"
		}
		b := block(r, next)
		b[0] = commented(b[0].WithSymbol(label(i)), r.String())
		program = append(program, b...)
	}
	program = append(program,
		commented(asm.Mov.Imm(asm.R0, 0).WithSymbol("deny"), "no rule: denied"),
		asm.Return(),
	)
	// Marshal turns labels into distances, in any byte order. Otherwise the program would have a
	// different tag than its copy in the kernel.
	if err := program.Marshal(io.Discard, binary.LittleEndian); err != nil {
		panic("devfilter: " + err.Error())
	}
	return program
}

// block ends the program with 1 if r allows the request, and otherwise leads to next.
func block(r devrule.Rule, next string) asm.Instructions {
	kind := int32(devChar)
	if r.Kind == devrule.Block {
		kind = devBlock
	}
	b := asm.Instructions{asm.JNE.Imm(asm.R2, kind, next)}
	if r.Major != devrule.Any {
		b = append(b, asm.JNE.Imm(asm.R4, int32(r.Major), next))
	}
	if r.Minor != devrule.Any {
		b = append(b, asm.JNE.Imm(asm.R5, int32(r.Minor), next))
	}
	if denied := devrule.All &^ r.Access; denied != 0 {
		b = append(b, asm.JSet.Imm(asm.R3, int32(denied), next)) // the request has a bit that r does not have
	}
	return append(b, asm.Mov.Imm(asm.R0, 1), asm.Return())
}

func label(i int) string { return fmt.Sprintf("rule%d", i+1) }

func commented(ins asm.Instruction, text string) asm.Instruction {
	return ins.WithSource(asm.Comment(text))
}
