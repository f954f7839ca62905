package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/devfilter"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// lookup is a /dev with the nodes of an NVIDIA node.
func lookup(name string) ([]devfilter.Node, error) {
	switch name {
	case "nvidia0":
		return []devfilter.Node{{Kind: devfilter.Char, Major: 195}}, nil
	case "nvidia*":
		return []devfilter.Node{{Kind: devfilter.Char, Major: 195}, {Kind: devfilter.Char, Major: 195, Minor: 255}}, nil
	case "nvidiactl":
		return []devfilter.Node{{Kind: devfilter.Char, Major: 195, Minor: 255}}, nil
	case "fuse":
		return []devfilter.Node{{Kind: devfilter.Char, Major: 10, Minor: 229}}, nil
	}
	return nil, nil
}

func TestGuarded(t *testing.T) {
	fuse := &inventory.Inventory{Devices: []topology.Device{{ID: "/dev/fuse", Resource: "fuse", Nodes: []topology.DeviceNode{{Path: "/dev/fuse", Major: 10, Minor: 229}}}}}
	tests := []struct {
		name  string
		inv   *inventory.Inventory
		allow []any
		fuse  bool
		want  string // part of what is said; "" for nothing
		stays string // rules of the entry that stay
	}{
		{"what OpenPBS ships", eight(), []any{"c *:* rwm"}, false, `devices.allow: "c *:* rwm" would let every job open /dev/nvidia0 (c 195:0), which is ngpus ` + uuid(0) + `: left out: ["c *:* rwm"]`, "[]"},
		{"on a node without devices", &inventory.Inventory{}, []any{"c *:* rwm"}, false, "", "[c *:* rwm]"},
		{"on a node of which nothing is known", nil, []any{"c *:* rwm"}, false, "", "[c *:* rwm]"},
		{"a major", eight(), []any{"c 195:* r"}, false, `"c 195:* r" would let every job open`, "[]"},
		{"one GPU by its name", eight(), []any{[]any{"nvidia0", "rw"}}, false, `["nvidia0" "rw"] would let every job open /dev/nvidia0`, "[]"},
		{"a pattern of which some are GPUs", eight(), []any{[]any{"nvidia*", "rw"}}, false, `: left out: ["c 195:0 rw"]`, "[c 195:255 rw]"},
		{"all kinds", eight(), []any{"a 195:7 w"}, false, "/dev/nvidia7 (c 195:7)", "[]"},
		{"what all holders share", eight(), []any{[]any{"nvidiactl", "rw"}}, false, "", "[c 195:255 rw]"},
		{"to make nodes opens nothing", eight(), []any{"c *:* m"}, false, "", "[c *:* m]"},
		{"another kind of device", eight(), []any{"b 195:* rwm"}, false, "", "[b 195:* rwm]"},
		{"the base list", fuse, nil, true, `base list: "c 10:229 rwm" would let every job open /dev/fuse (c 10:229), which is fuse /dev/fuse: left out: ["c 10:229 rwm"]`, "[]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &policy{File: *config.Default()}
			p.Devices.Allow, p.Devices.Fuse = tt.allow, tt.fuse
			list, _, err := p.resolve(lookup)
			if err != nil {
				t.Fatal(err)
			}
			kept, leftOut := list.guarded(tt.inv)
			if (len(leftOut) == 0) != (tt.want == "") || len(leftOut) > 0 && !strings.Contains(leftOut[0], tt.want) {
				t.Errorf("got %q, want %s", leftOut, tt.want)
			}
			if got := fmt.Sprint(kept[len(kept)-1].rules); got != tt.stays {
				t.Errorf("%s stays, want %s", got, tt.stays)
			}
			if len(kept) != len(list) {
				t.Errorf("%d entries of %d", len(kept), len(list))
			}
		})
	}
}

func TestResolveNames(t *testing.T) {
	p := &policy{File: *config.Default()}
	p.Devices.Allow = []any{[]any{"not/there", "rw"}, []any{"nvidiactl", "rw"}}
	_, unknown, err := p.resolve(lookup)
	if err != nil || len(unknown) != 1 || unknown[0] != "not/there" {
		t.Errorf("unknown %q, %v, want not/there alone", unknown, err)
	}
	// A file that is no device, of the base list or not, is as good as none, and is told.
	stray := func(name string) ([]devfilter.Node, error) {
		if name == "knem" || name == "typo" {
			return nil, errors.New(name + " is no device")
		}
		return lookup(name)
	}
	p.Devices.Allow = []any{[]any{"typo", "rw"}, []any{"nvidiactl", "rw"}}
	list, missing, err := p.resolve(stray)
	if diff := cmp.Diff([]string{"knem is no device", "typo is no device"}, missing); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if rules := list[len(list)-1].rules; len(rules) != 1 || !devfilter.Allows(list.with(nil), devfilter.Char, 1, 3, devfilter.Read) {
		t.Errorf("the other entries are gone: %v", list)
	}
	p.Devices.Allow = []any{"c 1:3 r", "c 1 rwm"}
	if _, _, err := p.resolve(lookup); err == nil || !strings.HasPrefix(err.Error(), `devices.allow, entry 2, "c 1 rwm"`) {
		t.Errorf("%v, want an error that names the entry", err)
	}
}

// A job may open the base list, what all jobs may, its own devices and what their holders share, and nothing else.
func TestRulesOfGrant(t *testing.T) {
	p := &policy{File: *config.Default()}
	p.Devices.Allow = []any{"b 8:0 r"}
	list, _, err := p.resolve(lookup)
	if err != nil {
		t.Fatal(err)
	}
	const rw = devfilter.Read | devfilter.Write
	none, one := list.with(nil), list.with(&inventory.Grant{Devices: []topology.Device{migInstance(), a100(3)}, Shared: nvidiaShared})
	for _, tt := range []struct {
		name         string
		kind         devfilter.Kind
		major, minor uint32
		access       devfilter.Access
		none, one    bool
	}{
		{"null", devfilter.Char, 1, 3, rw, true, true},
		{"allowed to all", devfilter.Block, 8, 0, devfilter.Read, true, true},
		{"and not more than that", devfilter.Block, 8, 0, rw, false, false},
		{"its GPU", devfilter.Char, 195, 3, rw, false, true},
		{"the GPU of its MIG instance", devfilter.Char, 195, 0, rw, false, true},
		{"its MIG instance", devfilter.Char, 236, 21, rw, false, true},
		{"another MIG instance", devfilter.Char, 236, 30, rw, false, false},
		{"another GPU", devfilter.Char, 195, 4, rw, false, false},
		{"shared", devfilter.Char, 195, 255, rw, false, true},
		{"a block device of the same numbers", devfilter.Block, 195, 3, devfilter.Read, false, false},
		{"fuse", devfilter.Char, 10, 229, rw, false, false},
	} {
		for _, of := range []struct {
			rules []devfilter.Rule
			want  bool
		}{{none, tt.none}, {one, tt.one}} {
			if got := devfilter.Allows(of.rules, tt.kind, tt.major, tt.minor, tt.access); got != of.want {
				t.Errorf("%s: %t, want %t (%d rules)", tt.name, got, of.want, len(of.rules))
			}
		}
	}
}
