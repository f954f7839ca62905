package devfilter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// installV1 adds missing rules to the job's list, removes superfluous ones, and reads the list
// back.
//
// The v1 controller cannot replace a list in one step, which causes two differences from v2. If a
// cgroup still allows everything, everything is denied first, so nothing opens until the list is
// written. Second, two rules for the same device may exchange accesses ("c 1:* w" and "c 1:3 r"
// become "c 1:* r" and "c 1:3 w"). Then an open that works before and after may fail in between.
// The kernel never gives a cgroup below the job's more access by a change, only less.
func installV1(dir *kernfs.FS, rules []devrule.Rule) error {
	have, open, err := listV1(dir)
	if err != nil {
		return err
	}
	if open {
		if err := dir.Write("devices.deny", "a"); err != nil {
			return err
		}
	}
	want := devrule.Normalise(rules)
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
	rule devrule.Rule
}

// changesV1 returns the writes that change one list into another. Each rule names one kind, and
// every device occurs once. A rule never has an access that it has neither before nor after,
// because that would open devices that both lists deny.
func changesV1(have, want []devrule.Rule) []change {
	var grow, exchange, shrink []change
	each(have, want, func(device devrule.Rule, before, after devrule.Access) {
		allow := change{"devices.allow", with(device, after&^before)}
		deny := change{"devices.deny", with(device, before&^after)}
		switch {
		case before == after:
		case deny.rule.Access == 0:
			grow = append(grow, allow)
		case allow.rule.Access == 0:
			shrink = append(shrink, deny)
		default: // going from "r" to "w" through "rw" would allow O_RDWR
			exchange = append(exchange, deny, allow)
		}
	})
	return slices.Concat(grow, exchange, shrink)
}

// each calls do for each device in a or b, with its access in both, or 0 if it is absent.
func each(a, b []devrule.Rule, do func(device devrule.Rule, inA, inB devrule.Access)) {
	in := func(rules []devrule.Rule, r devrule.Rule) devrule.Access {
		if i := slices.IndexFunc(rules, func(s devrule.Rule) bool { return devrule.Compare(r, s) == 0 }); i >= 0 {
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

func with(r devrule.Rule, a devrule.Access) devrule.Rule {
	r.Access = a
	return r
}

// listV1 reads devices.list. open means that there is no list: everything is allowed, perhaps with
// exceptions that the kernel does not show.
func listV1(dir *kernfs.FS) (rules []devrule.Rule, open bool, err error) {
	b, err := dir.ReadFile("devices.list")
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(string(b)) {
		r, err := devrule.ParseRule(line)
		if err != nil {
			return nil, false, &kernfs.ParseError{File: dir.Path("devices.list"), Err: err}
		}
		if r.Kind == devrule.Both {
			return nil, true, nil
		}
		rules = append(rules, r)
	}
	return rules, false, nil
}

// inForceV1 compares the meaning of the lists: an entry that another one covers makes no
// difference.
func inForceV1(dir *kernfs.FS, rules []devrule.Rule) error {
	have, open, err := listV1(dir)
	if err != nil {
		return err
	}
	if open {
		return fmt.Errorf("device filter of %s: there is none", dir.Path("."))
	}
	var wrong []string
	each(devrule.Normalise(have), devrule.Normalise(rules), func(device devrule.Rule, have, want devrule.Access) {
		if a := have &^ want; a != 0 {
			wrong = append(wrong, fmt.Sprintf("allows %q, which is not in the rules", with(device, a)))
		}
		if a := want &^ have; a != 0 {
			wrong = append(wrong, fmt.Sprintf("lacks %q", with(device, a)))
		}
	})
	if len(wrong) > 0 {
		return fmt.Errorf("device filter of %s: it %s", dir.Path("."), strings.Join(wrong, ", "))
	}
	return nil
}
