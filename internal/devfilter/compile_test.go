package devfilter

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/must"
)

var (
	update = flag.Bool("update", false, "rewrite the listings in testdata")
	cases  = flag.Int("cases", 1_000_000,
		"how many requests TestProgramDoesWhatRulesSay tries; a guest of lab/vm/test tries fewer")
)

// Each file of testdata/listings.txtar is a set of rules, one a line, and the program that it
// makes.
func TestProgramsAreAsListed(t *testing.T) {
	file := filepath.Join("testdata", "listings.txtar")
	archive, err := txtar.ParseFile(file)
	must.NoError(t, err)
	for i, f := range archive.Files {
		given, want, _ := strings.Cut(string(f.Data), "---\n")
		got := fmt.Sprintf("%v", Compile(mustRules(t,
			strings.FieldsFunc(given, func(r rune) bool { return r == '\n' })...)))
		if *update {
			archive.Files[i].Data = []byte(given + "---\n" + got)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s\nA change that is meant: go test -run Listings -update", f.Name, diff)
		}
	}
	if *update {
		must.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
	}
}

// The order and the form of rules make no difference to the program: InForce depends on it.
func TestSameRulesSameProgram(t *testing.T) {
	a := marshal(t, Compile(mustRules(t, "c 1:3 r", "b 7:* r", "c 1:3 w", "c 1:5 rw")))
	b := marshal(t, Compile(mustRules(t, "c 1:5 rw", "b 7:3 r", "c 1:3 rw", "b 7:* r", "c 1:5 r")))
	if !bytes.Equal(a, b) {
		t.Error("the same rules made different programs")
	}
}

func marshal(t testing.TB, program asm.Instructions) []byte {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, program.Marshal(&b, binary.LittleEndian))
	return b.Bytes()
}

// The numbers that random rules and requests are made of: few, so that they meet.
var (
	someMajors = []uint32{0, 1, 7, 195, 1<<12 - 1}
	someMinors = []uint32{0, 3, 5, 1<<20 - 1}
	someKinds  = []devrule.Kind{devrule.Block, devrule.Char, devrule.Both}
)

func mustRules(t testing.TB, texts ...string) []devrule.Rule {
	t.Helper()
	var rules []devrule.Rule
	for _, text := range texts {
		r, err := devrule.ParseRule(text)
		must.NoError(t, err)
		rules = append(rules, r)
	}
	return rules
}

func texts(rules []devrule.Rule) []string {
	list := []string{}
	for _, r := range rules {
		list = append(list, r.String())
	}
	return list
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func randomRules(r *rand.Rand) []devrule.Rule {
	rules := make([]devrule.Rule, r.IntN(9))
	for i := range rules {
		rules[i] = devrule.Rule{Kind: pick(r, someKinds), Major: pick(r, append(someMajors, devrule.Any)),
			Minor: pick(r, append(someMinors, devrule.Any)), Access: devrule.Access(r.IntN(8))}
	}
	return rules
}

func TestProgramDoesWhatRulesSay(t *testing.T) {
	if os.Getenv("HOOKHOST_FAKES") == "no" { // there each takes twenty times as long, and no kernel has a part in it
		*cases = min(*cases, 20_000)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	allowed := 0
	for n := 0; n < *cases; {
		rules := randomRules(r)
		program := decode(t, marshal(t, Compile(rules)))
		for range 20 {
			kind, access := pick(r, []devrule.Kind{devrule.Block, devrule.Char}), devrule.Access(r.IntN(8))
			major, minor := pick(r, someMajors), pick(r, someMinors)
			want := devrule.Allows(rules, kind, major, minor, access)
			if got := interpret(t, program, kind, major, minor, access); got != want {
				t.Fatalf("seed %d: rules %q, request %v: the program says %v, the rules %v", seed, texts(rules),
					devrule.Rule{Kind: kind, Major: major, Minor: minor, Access: access}, got, want)
			}
			if short := devrule.Allows(devrule.Normalise(rules), kind, major, minor, access); short != want {
				t.Fatalf("seed %d: rules %q, request %v: normalised rules say %v, the rules %v", seed, texts(rules),
					devrule.Rule{Kind: kind, Major: major, Minor: minor, Access: access}, short, want)
			}
			if want {
				allowed++
			}
			n++
		}
	}
	t.Logf("%d requests, %d of them allowed", *cases, allowed)
	if allowed < *cases/20 || allowed > *cases*19/20 {
		t.Errorf("%d of %d requests were allowed: they do not try both answers", allowed, *cases)
	}
}

// instruction is struct bpf_insn as a kernel gets it, so that distances count and labels do not.
type instruction struct {
	op       uint8
	dst, src uint8
	off      int16
	imm      int32
}

func decode(t testing.TB, b []byte) []instruction {
	t.Helper()
	var program []instruction
	for ; len(b) >= 8; b = b[8:] {
		program = append(program, instruction{b[0], b[1] & 0xf, b[1] >> 4, int16(binary.LittleEndian.Uint16(b[2:])),
			int32(binary.LittleEndian.Uint32(b[4:]))})
	}
	return program
}

// interpret runs a program as the kernel does, with the few instructions of
// Documentation/bpf/standardization/ instruction-set.rst that Compile uses. Anything else fails.
func interpret(
	t testing.TB, program []instruction, kind devrule.Kind, major, minor uint32, access devrule.Access,
) bool {
	t.Helper()
	kinds := map[devrule.Kind]uint64{devrule.Block: 1, devrule.Char: 2}
	ctx := map[int16]uint64{0: uint64(access)<<16 | kinds[kind], 4: uint64(major), 8: uint64(minor)}
	var reg [11]uint64
	const context = 1 // the register that points to it
	for pc := 0; ; pc++ {
		if pc < 0 || pc >= len(program) {
			t.Fatalf("ran out of the program at %d of %d", pc, len(program))
		}
		in := program[pc]
		imm := uint64(int64(in.imm))
		jump := false
		switch in.op {
		case 0x61: // dst = *(u32 *)(src + off)
			v, ok := ctx[in.off]
			if !ok || in.src != context {
				t.Fatalf("instruction %d reads r%d%+d", pc, in.src, in.off)
			}
			reg[in.dst] = v
		case 0xb7:
			reg[in.dst] = imm
		case 0xbf:
			reg[in.dst] = reg[in.src]
		case 0x57:
			reg[in.dst] &= imm
		case 0x77:
			reg[in.dst] >>= imm
		case 0x55:
			jump = reg[in.dst] != imm
		case 0x45:
			jump = reg[in.dst]&imm != 0
		case 0x95:
			return reg[0] != 0
		default:
			t.Fatalf("instruction %d has opcode %#x", pc, in.op)
		}
		if jump {
			if in.off < 0 {
				t.Fatalf("instruction %d jumps back", pc)
			}
			pc += int(in.off)
		}
	}
}
