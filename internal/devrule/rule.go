// Package devrule reads rules about devices: which ones a job may open. It reads the entries of
// devices.allow in hookhost.toml and makes rules of them on this node.
//
// A rule has the kernel's form, "c 195:0 rw". Only Allows defines what the rules mean.
package devrule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Access is what may be done with a device. The bits are those of the kernel (BPF_DEVCG_ACC_*,
// DEVCG_ACC_*).
type Access uint8

const (
	Mknod Access = 1 << iota // create a node for it
	Read
	Write

	All = Read | Write | Mknod
)

// String returns the letters in the order of devices.list: "rwm".
func (a Access) String() string {
	var b strings.Builder
	for _, l := range []struct {
		bit    Access
		letter byte
	}{{Read, 'r'}, {Write, 'w'}, {Mknod, 'm'}} {
		if a&l.bit != 0 {
			b.WriteByte(l.letter)
		}
	}
	return b.String()
}

// parseAccess parses the letters r, w and m in any order.
func parseAccess(text string) (Access, error) {
	var a Access
	for _, letter := range text {
		bit, ok := map[rune]Access{'r': Read, 'w': Write, 'm': Mknod}[letter]
		if !ok || a&bit != 0 {
			return 0, fmt.Errorf("access %q: want some of the letters r, w, m", text)
		}
		a |= bit
	}
	if a == 0 {
		return 0, errors.New("access is empty: want some of the letters r, w, m")
	}
	return a, nil
}

// Kind is a kind of device, as a letter.
type Kind byte

const (
	Block Kind = 'b'
	Char  Kind = 'c'
	Both  Kind = 'a' // in rules only
)

// Any stands for all numbers, in rules only. It is the kernel's ~0.
const Any = ^uint32(0)

// The largest numbers that a device can have (include/linux/kdev_t.h).
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

// Rule allows access to a device, or to all devices with any major or minor number. The zero value
// allows nothing.
type Rule struct {
	Kind         Kind
	Major, Minor uint32 // or Any
	Access       Access
}

// String returns the rule in the form of devices.allow. The kind Both is an exception: to the
// kernel it means all devices.
func (r Rule) String() string {
	return fmt.Sprintf("%c %s:%s %s", r.Kind, number(r.Major), number(r.Minor), r.Access)
}

func number(n uint32) string {
	if n == Any {
		return "*"
	}
	return strconv.FormatUint(uint64(n), 10)
}

// ParseRule parses "c 195:* rwm". The kind "a" stands for both kinds with the given numbers, which
// must not be left out.
func ParseRule(text string) (Rule, error) {
	r, err := parseRule(text)
	if err != nil {
		return Rule{}, fmt.Errorf("device rule %q: %w", text, err)
	}
	return r, nil
}

func parseRule(text string) (Rule, error) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return Rule{}, errors.New(`want "KIND MAJOR:MINOR ACCESS"`)
	}
	var r Rule
	switch f[0] {
	case "a", "b", "c":
		r.Kind = Kind(f[0][0])
	default:
		return Rule{}, fmt.Errorf("kind %q: want b, c or a", f[0])
	}
	major, minor, ok := strings.Cut(f[1], ":")
	if !ok {
		return Rule{}, fmt.Errorf("device %q: want MAJOR:MINOR", f[1])
	}
	var err error
	if r.Major, err = parseNumber(major, maxMajor); err != nil {
		return Rule{}, fmt.Errorf("major number: %w", err)
	}
	if r.Minor, err = parseNumber(minor, maxMinor); err != nil {
		return Rule{}, fmt.Errorf("minor number: %w", err)
	}
	if r.Access, err = parseAccess(f[2]); err != nil {
		return Rule{}, err
	}
	return r, nil
}

func parseNumber(text string, most uint32) (uint32, error) {
	if text == "*" {
		return Any, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("%q: want * or a number up to %d", text, most)
	}
	return uint32(n), nil
}

// is reports whether r is about a device of this kind with these numbers.
func (r Rule) is(kind Kind, major, minor uint32) bool {
	return (r.Kind == Both || r.Kind == kind) && (r.Major == Any || r.Major == major) &&
		(r.Minor == Any || r.Minor == minor)
}

// Allows reports whether rules allow an access to the device of this kind (Block or Char) with
// these numbers. A single rule must allow all of it, as in match_exception of
// security/device_cgroup.c. With "c 1:* r" and "c 1:3 w" nobody can open 1:3 for reading and
// writing at once. Rules for the same numbers are merged, as in the kernel. An access that no rule
// allows is denied.
func Allows(rules []Rule, kind Kind, major, minor uint32, access Access) bool {
	for _, r := range rules {
		if !r.is(kind, major, minor) {
			continue
		}
		var allowed Access
		for _, s := range rules {
			if s.Major == r.Major && s.Minor == r.Minor && s.is(kind, major, minor) {
				allowed |= s.Access
			}
		}
		if allowed != 0 && access&^allowed == 0 {
			return true
		}
	}
	return false
}

// Normalise returns the shortest equivalent list. It separates the kinds, merges rules for the same
// numbers and removes rules that another one covers. It sorts the list, so that equivalent lists
// compile to the same program.
func Normalise(rules []Rule) []Rule {
	type device struct {
		kind         Kind
		major, minor uint32
	}
	merged := map[device]Access{}
	for _, r := range rules {
		for _, kind := range []Kind{Block, Char} {
			if a := r.Access & All; a != 0 && (r.Kind == kind || r.Kind == Both) {
				merged[device{kind, r.Major, r.Minor}] |= a
			}
		}
	}
	list := make([]Rule, 0, len(merged))
	for d, access := range merged {
		covered := func(major, minor uint32) bool {
			wider := device{d.kind, major, minor}
			return wider != d && merged[wider]&access == access
		}
		if !covered(Any, Any) && !covered(Any, d.minor) && !covered(d.major, Any) {
			list = append(list, Rule{d.kind, d.major, d.minor, access})
		}
	}
	slices.SortFunc(list, Compare)
	return list
}

// Compare orders rules by their devices, whatever the access.
func Compare(a, b Rule) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
}
