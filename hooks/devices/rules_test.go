package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// lookup is a /dev with the nodes of an NVIDIA node.
func lookup(name string) ([]devrule.Node, error) {
	switch name {
	case "nvidia0":
		return []devrule.Node{{Kind: devrule.Char, Major: 195}}, nil
	case "nvidia*":
		return []devrule.Node{{Kind: devrule.Char, Major: 195}, {Kind: devrule.Char, Major: 195, Minor: 255}}, nil
	case "nvidiactl":
		return []devrule.Node{{Kind: devrule.Char, Major: 195, Minor: 255}}, nil
	case "fuse":
		return []devrule.Node{{Kind: devrule.Char, Major: 10, Minor: 229}}, nil
	}
	return nil, nil
}

func TestAllowedRulesOpenNoDeviceThatIsGranted(t *testing.T) {
	fuse := &inventory.Inventory{Devices: []topology.Device{{ID: "/dev/fuse", Resource: "fuse",
		Nodes: []topology.DeviceNode{{Path: "/dev/fuse", Major: 10, Minor: 229}}}}}
	none := &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia"}, {Name: "amd"}}}
	tests := []struct {
		name  string
		inv   *inventory.Inventory
		allow []any
		fuse  bool
		want  string // part of the message; "" for none
		stays string // the entry's rules that stay
	}{
		{"what OpenPBS ships", eight(), []any{"c *:* rwm"}, false,
			`devices.allow: "c *:* rwm" would let every job open /dev/nvidia0 (c 195:0), which is ngpus ` + uuid(0) +
				`: left out: ["c *:* rwm"]`, "[]"},
		{"on a node without devices", none, []any{"c *:* rwm"}, false, "", "[c *:* rwm]"},
		{"a major", eight(), []any{"c 195:* r"}, false, `"c 195:* r" would let every job open`, "[]"},
		{"one GPU by its name", eight(), []any{[]any{"nvidia0", "rw"}}, false,
			`["nvidia0", "rw"] would let every job open /dev/nvidia0`, "[]"},
		{"a pattern of which some are GPUs", eight(), []any{[]any{"nvidia*", "rw"}}, false,
			`: left out: ["c 195:0 rw"]`, "[c 195:255 rw]"},
		{"all kinds", eight(), []any{"a 195:7 w"}, false, "/dev/nvidia7 (c 195:7)", "[]"},
		{"what all holders share", eight(), []any{[]any{"nvidiactl", "rw"}}, false, "", "[c 195:255 rw]"},
		{"to make nodes opens nothing", eight(), []any{"c *:* m"}, false, "", "[c *:* m]"},
		{"another kind of device", eight(), []any{"b 195:* rwm"}, false, "", "[b 195:* rwm]"},
		{"the base list", fuse, nil, true,
			`base list: "c 10:229 rwm" would let every job open /dev/fuse (c 10:229), which is fuse /dev/fuse: left out: ["c 10:229 rwm"]`, "[]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &policy{File: *config.Default()}
			p.Devices.Allow, p.Devices.Fuse = tt.allow, tt.fuse
			list, _, err := p.resolve(lookup)
			must.NoError(t, err)
			kept, leftOut := list.guarded(tt.inv, p.unseenBy(tt.inv, lookup, majors))
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

// majors returns the majors of a node with NVIDIA's driver.
func majors() ([]uint32, error) { return []uint32{195, 226, 261, 236}, nil }

// As long as the devices are not known, nothing is opened that may be one. Everything else stays
// open.
func TestGuardedWhileUnknown(t *testing.T) {
	found := func(d []topology.Device, s ...inventory.Source) *inventory.Inventory {
		return &inventory.Inventory{Devices: d, Sources: s}
	}
	late := found(nil, inventory.Source{Name: "scan", Error: "no result within 10s"})
	hangs := found(nil, inventory.Source{Name: "nvidia", Error: "no answer within 20s"}, inventory.Source{Name: "amd"})
	broken := func() ([]uint32, error) { return nil, errors.New("no /proc/devices") }
	for _, tt := range []struct {
		name   string
		inv    *inventory.Inventory
		allow  any
		edit   func(*config.File)
		majors func() ([]uint32, error)
		said   string // part of the message; "" if the entry stays
	}{
		{name: "first start", allow: "c *:* rwm",
			said: `"c *:* rwm" may let every job open GPUs that are not known (there was no scan yet): left out: ["c *:* rwm"]`},
		{name: "first start, a driver is slow", inv: late, allow: "c *:* rw", said: "(no result within 10s)"},
		{name: "a driver hangs", inv: hangs, allow: "c *:* r", said: "(nvidia: no answer within 20s)"},
		{name: "a driver hangs, and what it had is known", inv: found([]topology.Device{a100(0)}, hangs.Sources...),
			allow: "c 226:* rw"},
		{name: "NVML fails, the driver's files say something", inv: found(nil,
			inventory.Source{Name: "nvml", Error: "x"}, inventory.Source{Name: "nvidia"}), allow: "c *:* rw"},
		{name: "NVML fails", inv: found(nil, inventory.Source{Name: "nvml", Error: "x"}, inventory.Source{Name: "amd"}),
			allow: "c 195:* rw", said: "(nvml: x)"},
		{name: "another vendor's GPUs are known", inv: found([]topology.Device{a100(0)}, inventory.Source{Name: "nvml"},
			inventory.Source{Name: "amd", Error: "x"}), allow: "c 226:* rw", said: "(amd: x)"},
		{name: "any minor", allow: "c *:3 w", said: "GPUs"},
		{name: "all kinds", allow: "a *:* r", said: "GPUs"},
		{name: "MIG", allow: "c 236:21 r", said: "GPUs"},
		{name: "by name", allow: []any{"nvidia0", "rw"}, said: "GPUs"},
		{name: "nvidiactl", allow: []any{"nvidiactl", "rw"}},
		{name: "to make nodes opens nothing", allow: "c *:* m"},
		{name: "block devices", allow: "b *:* rw"},
		{name: "other devices", allow: "c 203:* r"},
		{name: "other devices, where no major can be told", allow: "c 203:* r", majors: broken, said: "GPUs"},
		{name: "GPUs are not looked for", allow: "c *:* rwm", edit: func(c *config.File) {
			c.Devices.DiscoverGPUs = false
		}},
		{name: "configured", allow: "c 10:* rw", edit: func(c *config.File) {
			c.Device = []config.Device{{Resource: "fuse", Paths: []string{"/dev/fuse"}}}
		},
			said: `"c 10:* rw" would let every job open /dev/fuse (c 10:229), which is fuse: left out`},
		{name: "another than configured", allow: "c 11:* rw", edit: func(c *config.File) {
			c.Device = []config.Device{{Resource: "fuse", Paths: []string{"/dev/fuse"}}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &policy{File: *config.Default()}
			p.Devices.Allow = []any{tt.allow}
			if tt.edit != nil {
				tt.edit(&p.File)
			}
			list, _, err := p.resolve(lookup)
			must.NoError(t, err)
			if tt.majors == nil {
				tt.majors = majors
			}
			kept, leftOut := list.guarded(tt.inv, p.unseenBy(tt.inv, lookup, tt.majors))
			if said := strings.Join(leftOut, "; "); (said == "") != (tt.said == "") ||
				!strings.Contains(said, tt.said) {
				t.Errorf("said: %s\nwant: %s", said, tt.said)
			}
			if stays := len(kept[len(kept)-1].rules) > 0; stays != (tt.said == "") {
				t.Errorf("it stays: %t", stays)
			}
			if !devrule.Allows(kept.with(nil), devrule.Char, 1, 3, devrule.Read) {
				t.Error("null is closed")
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
	// A file that is not a device node counts as missing, in the base list and in devices.allow,
	// and is reported.
	stray := func(name string) ([]devrule.Node, error) {
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
	if rules := list[len(list)-1].rules; len(rules) != 1 || !devrule.Allows(list.with(nil), devrule.Char, 1, 3,
		devrule.Read) {
		t.Errorf("the other entries are gone: %v", list)
	}
	p.Devices.Allow = []any{"c 1:3 r", "c 1 rwm"}
	if _, _, err := p.resolve(lookup); err == nil || !strings.HasPrefix(err.Error(),
		`devices.allow, entry 2, "c 1 rwm"`) {
		t.Errorf("%v, want an error that names the entry", err)
	}
}

// A job may open the base list, what all jobs may open, its own devices and the nodes shared by
// their holders, and nothing else.
func TestRulesOfGrant(t *testing.T) {
	p := &policy{File: *config.Default()}
	p.Devices.Allow = []any{"b 8:0 r"}
	list, _, err := p.resolve(lookup)
	must.NoError(t, err)
	const rw = devrule.Read | devrule.Write
	none, one := list.with(nil), list.with(&inventory.Grant{Devices: []topology.Device{migInstance(), a100(3)},
		Shared: nvidiaShared})
	for _, tt := range []struct {
		name         string
		kind         devrule.Kind
		major, minor uint32
		access       devrule.Access
		none, one    bool
	}{
		{"null", devrule.Char, 1, 3, rw, true, true},
		{"allowed to all", devrule.Block, 8, 0, devrule.Read, true, true},
		{"and not more than that", devrule.Block, 8, 0, rw, false, false},
		{"its GPU", devrule.Char, 195, 3, rw, false, true},
		{"the GPU of its MIG instance", devrule.Char, 195, 0, rw, false, true},
		{"its MIG instance", devrule.Char, 236, 21, rw, false, true},
		{"another MIG instance", devrule.Char, 236, 30, rw, false, false},
		{"another GPU", devrule.Char, 195, 4, rw, false, false},
		{"shared", devrule.Char, 195, 255, rw, false, true},
		{"a block device of the same numbers", devrule.Block, 195, 3, devrule.Read, false, false},
		{"fuse", devrule.Char, 10, 229, rw, false, false},
	} {
		for _, of := range []struct {
			rules []devrule.Rule
			want  bool
		}{{none, tt.none}, {one, tt.one}} {
			if got := devrule.Allows(of.rules, tt.kind, tt.major, tt.minor, tt.access); got != of.want {
				t.Errorf("%s: %t, want %t (%d rules)", tt.name, got, of.want, len(of.rules))
			}
		}
	}
}
