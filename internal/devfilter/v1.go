package devfilter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// installV1 writes what the job's list lacks and what it has too much, and reads it back.
//
// The v1 controller cannot exchange a list in one step, so two things differ from v2. A cgroup that
// still allows everything is denied everything first: until the list is written, nothing opens. Two
// rules that both cover a device may exchange accesses ("c 1:* w" and "c 1:3 r" become "c 1:* r"
// and "c 1:3 w"). An open that passes before and after may then fail in between. A cgroup below the
// job's never gets more by a change, only less: the kernel has it so.
func installV1(dir *kernfs.FS, rules []Rule) error {
	have, open, err := listV1(dir)
	if err != nil {
		return err
	}
	if open {
		if err := dir.Write("devices.deny", "a"); err != nil {
			return err
		}
	}
	want := normalise(rules)
	for _, w := range changesV1(have, want) {
		if err := dir.Write(w.file, w.rule.String()); err != nil {
			return err
		}
	}
	return inForceV1(dir, want)
}

// change is one write to devices.allow or devices.deny.
type change struct {
	file string
	rule Rule
}

// changesV1 returns how to get from one list to another, both of rules that name one kind, each
// device once. At no moment a rule has accesses that it has neither before nor after: that would
// open what both lists deny.
func changesV1(have, want []Rule) []change {
	var grow, exchange, shrink []change
	each(have, want, func(device Rule, before, after Access) {
		allow := change{"devices.allow", device.with(after &^ before)}
		deny := change{"devices.deny", device.with(before &^ after)}
		switch {
		case before == after:
		case deny.rule.Access == 0:
			grow = append(grow, allow)
		case allow.rule.Access == 0:
			shrink = append(shrink, deny)
		default: // "r" to "w" by way of "rw" would let O_RDWR through
			exchange = append(exchange, deny, allow)
		}
	})
	return slices.Concat(grow, exchange, shrink)
}

// each calls do for each device in a or b, with its access in both; 0 where it is absent.
func each(a, b []Rule, do func(device Rule, inA, inB Access)) {
	in := func(rules []Rule, r Rule) Access {
		if i := slices.IndexFunc(rules, func(s Rule) bool { return compare(r, s) == 0 }); i >= 0 {
			return rules[i].Access
		}
		return 0
	}
	for _, r := range a {
		do(r, r.Access, in(b, r))
	}
	for _, r := range b {
		if in(a, r) == 0 {
			do(r, 0, r.Access)
		}
	}
}

func (r Rule) with(a Access) Rule {
	r.Access = a
	return r
}

// listV1 reads devices.list. open: it is no list, for everything is allowed but perhaps some
// exceptions, which the kernel does not show.
func listV1(dir *kernfs.FS) (rules []Rule, open bool, err error) {
	b, err := dir.ReadFile("devices.list")
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(string(b)) {
		r, err := ParseRule(line)
		if err != nil {
			return nil, false, &kernfs.ParseError{File: dir.Path("devices.list"), Err: err}
		}
		if r.Kind == Both {
			return nil, true, nil
		}
		rules = append(rules, r)
	}
	return rules, false, nil
}

// inForceV1 compares what the lists mean: an entry that another one covers makes no difference.
func inForceV1(dir *kernfs.FS, rules []Rule) error {
	have, open, err := listV1(dir)
	if err != nil {
		return err
	}
	if open {
		return fmt.Errorf("device filter of %s: there is none", dir.Path("."))
	}
	var wrong []string
	each(normalise(have), normalise(rules), func(device Rule, have, want Access) {
		if a := have &^ want; a != 0 {
			wrong = append(wrong, fmt.Sprintf("allows %q, which is not in the rules", device.with(a)))
		}
		if a := want &^ have; a != 0 {
			wrong = append(wrong, fmt.Sprintf("lacks %q", device.with(a)))
		}
	})
	if len(wrong) > 0 {
		return fmt.Errorf("device filter of %s: it %s", dir.Path("."), strings.Join(wrong, ", "))
	}
	return nil
}
