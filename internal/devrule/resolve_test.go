package devrule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// dev is a Lookup in a table.
type dev map[string]Node

func (d dev) lookup(name string) ([]Node, error) {
	var names []string
	for have := range d {
		if ok, err := path.Match(name, have); err != nil {
			return nil, err
		} else if ok {
			names = append(names, have)
		}
	}
	slices.Sort(names)
	var nodes []Node
	for _, have := range names {
		if d[have].Kind == 0 {
			return nil, errNoDevice
		}
		nodes = append(nodes, d[have])
	}
	return nodes, nil
}

var someDev = dev{
	"console": {Char, 5, 1}, "tty0": {Char, 4, 0}, "sda": {Block, 8, 0}, "shm": {},
	"infiniband/uverbs0": {Char, 231, 192}, "infiniband/uverbs1": {Char, 231, 193}, "infiniband/umad0": {Char, 231, 0},
}

func TestResolveMakesRulesOfAList(t *testing.T) {
	list := func(items ...any) []any { return items }
	for _, tt := range []struct {
		allow   []any
		rules   []string
		unknown []string
		err     string
	}{
		{allow: nil, rules: []string{}},
		{allow: list("c 195:* rwm", "b *:* m"), rules: []string{"c 195:* rwm", "b *:* m"}},
		{allow: list(list("console", "rwm")), rules: []string{"c 5:1 rwm"}},
		{allow: list(list("/dev/console", "r")), rules: []string{"c 5:1 r"}},
		{allow: list(list("tty0", "rwm", "*")), rules: []string{"c 4:* rwm"}},
		{allow: list(list("tty0", "rw", "7"), list("tty0", "r", int64(8)), list("tty0", "w", 9.0),
			list("tty0", "m", 10)),
			rules: []string{"c 4:7 rw", "c 4:8 r", "c 4:9 w", "c 4:10 m"}},
		{allow: list(list("sda", "r")), rules: []string{"b 8:0 r"}},
		{allow: list(list("infiniband/uverbs*", "rw")), rules: []string{"c 231:192 rw", "c 231:193 rw"}},
		{allow: list(list("knem", "rw"), "c 1:3 r", list("cxi*", "rw")), rules: []string{"c 1:3 r"},
			unknown: []string{"knem", "cxi*"}},
		{allow: list("c 1:3 r", "c 1:3"), err: `allow, entry 2, "c 1:3": want "KIND MAJOR:MINOR ACCESS"`},
		{allow: list(5),
			err: `allow, entry 1, 5: want a rule such as "c 195:* rwm", or a list such as ["console", "rw"] or ["tty0", "rwm", "*"]`},
		{allow: list(list("tty0")),
			err: `allow, entry 1, ["tty0"]: want a rule such as "c 195:* rwm", or a list such as ["console", "rw"] or ["tty0", "rwm", "*"]`},
		{allow: list(list("tty0", 5)), err: `allow, entry 1, ["tty0", 5]: want a name and an access, both texts`},
		{allow: list(list("tty0", "x")),
			err: `allow, entry 1, ["tty0", "x"]: access "x": want some of the letters r, w, m`},
		{allow: list(list("tty0", "")),
			err: `allow, entry 1, ["tty0", ""]: access is empty: want some of the letters r, w, m`},
		{allow: list(list("tty0", "r", -1)),
			err: `allow, entry 1, ["tty0", "r", -1]: minor number: "-1": want * or a number up to 1048575`},
		{allow: list(list("tty0", "r", 1.5)),
			err: `allow, entry 1, ["tty0", "r", 1.5]: minor number: "1.5": want * or a number up to 1048575`},
		{allow: list(list("tty0", "r", true)),
			err: `allow, entry 1, ["tty0", "r", true]: minor number: true: want * or a number`},
		{allow: list(list("../sda", "r")), err: `allow, entry 1, ["../sda", "r"]: name "../sda": want one below /dev`},
		{allow: list(list("/etc/sda", "r")),
			err: `allow, entry 1, ["/etc/sda", "r"]: name "/etc/sda": want one below /dev`},
		{allow: list(list("", "r")), err: `allow, entry 1, ["", "r"]: name "": want one below /dev`},
		{allow: list(list("tty[", "r")), err: `allow, entry 1, ["tty[", "r"]: name "tty[": syntax error in pattern`},
		{allow: list(list("shm", "r")), err: `allow, entry 1, ["shm", "r"]: not a device`},
	} {
		rules, unknown, err := Resolve(tt.allow, someDev.lookup)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err || rules != nil || unknown != nil {
				t.Errorf("Resolve(%v) = %v, %v, %v\nwant error %s", tt.allow, rules, unknown, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("Resolve(%v): %v", tt.allow, err)
		}
		must.Equal(t, fmt.Sprintf("Resolve(%v) rules", tt.allow), tt.rules, texts(rules))
		must.Equal(t, fmt.Sprintf("Resolve(%v) unknown", tt.allow), tt.unknown, unknown)
	}
}

func TestResolvePassesOnWhatLookupCannot(t *testing.T) {
	broken := errors.New("input/output error")
	_, _, err := Resolve([]any{[]any{"tty0", "r"}}, func(string) ([]Node, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{`["c 195:* rwm"]`, `[["console","rwm"]]`, `[["tty0","rwm","*"]]`,
		`[["tty0","rw",5.0],["knem","rw"]]`, `[["infiniband/uverbs*","rw"]]`,
		`[[]]`, `[[null,"r"]]`, `[{"a":1}]`, `[["../x","r"]]`, `[["a\u0000","r"]]`, `[["tty0","r",1e300]]`,
		`[["[","r"]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var allow []any
		if json.Unmarshal([]byte(text), &allow) != nil {
			return
		}
		rules, unknown, err := Resolve(allow, func(name string) ([]Node, error) {
			if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
				t.Errorf("%s: looked up %q", text, name)
			}
			return someDev.lookup(name)
		})
		if err != nil && (rules != nil || unknown != nil) {
			t.Errorf("%s: %v, %v with error %v", text, rules, unknown, err)
		}
		for _, r := range rules {
			if again, err := ParseRule(r.String()); err != nil || again != r {
				t.Errorf("%s: rule %v, parsed again: %v, %v", text, r, again, err)
			}
		}
	})
}

func TestNodesFindsDevicesAlone(t *testing.T) {
	kernfstest.NeedRoot(t)
	dir := t.TempDir()
	null, loop := filepath.Join(dir, "c-null"), filepath.Join(dir, "b-loop")
	must.NoError(t, unix.Mknod(null, unix.S_IFCHR, int(unix.Mkdev(1, 3))),
		unix.Mknod(loop, unix.S_IFBLK, int(unix.Mkdev(7, 260))),
		os.Symlink(null, filepath.Join(dir, "link")),
		os.Symlink("nowhere", filepath.Join(dir, "c-broken")),
		os.WriteFile(filepath.Join(dir, "c-plain"), nil, 0o644))
	look := Nodes(dir)
	for name, want := range map[string][]Node{
		filepath.Base(null): {{Char, 1, 3}},
		filepath.Base(loop): {{Block, 7, 260}},
		"link":              {{Char, 1, 3}},
		"c-*":               {{Char, 1, 3}},
		"[bc]-*":            {{Block, 7, 260}, {Char, 1, 3}},
		"absent":            nil,
		"c-broken":          nil,
		"c-plain/x":         nil,
		"x*":                nil,
		"absent/x*":         nil,
	} {
		got, err := look(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must.Equal(t, name, want, got)
	}
	if _, err := look("c-plain"); !errors.Is(err, errNoDevice) {
		t.Errorf("a plain file: %v, want %v", err, errNoDevice)
	}
	if _, err := Nodes(filepath.Join(dir, "gone"))("x*"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pattern in a directory that is not there: %v, want not found", err)
	}
}

// The devices that jobs cannot do without are in the list by their numbers, which this machine's
// own nodes confirm.
func TestBaseHasTheDevicesOfThisMachine(t *testing.T) {
	rules, _, err := Resolve(Base(false), Nodes("/dev"))
	must.NoError(t, err)
	look := Nodes("/dev")
	for name, want := range map[string]bool{
		"null": true, "zero": true, "full": true, "random": true, "urandom": true, "tty": true, "ptmx": true,
		"pts/0":   true,
		"console": false, "kmsg": false, "fuse": false, "tty0": false, "mem": false, "loop0": false,
		"infiniband/umad0": false,
		"vda":              false, "sda": false, "kvm": false, "net/tun": false, "cuse": false, "nvidia0": false,
		"nvidiactl": false,
	} {
		nodes, err := look(name)
		must.NoError(t, err)
		for _, n := range nodes {
			if got := Allows(rules, n.Kind, n.Major, n.Minor, Read|Write); got != want {
				t.Errorf("%s: allowed %v, want %v", name, got, want)
			}
		}
	}
	fused, _, err := Resolve(Base(true), Nodes("/dev"))
	must.NoError(t, err)
	if !Allows(fused, Char, 10, 229, Read|Write) || Allows(rules, Char, 10, 229, Read) {
		t.Error("fuse is to be allowed when it is asked for, and only then")
	}
	if Allows(fused, Block, 8, 0, 0) || Allows(fused, Block, 8, 0, Mknod) || Allows(fused, Char, 195, 0, Mknod) {
		t.Error("the base list lets jobs make nodes of devices that they may not open")
	}
}
