package openpbs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bin is a PBS_EXEC/bin whose pbs_python is a program with PBS's words in it, and a stand-in beside
// the folder.
type bin struct {
	t *testing.T
	StandIn
	program string // the stand-in
	python  []byte // PBS's own
}

func newBin(t *testing.T) *bin {
	t.Helper()
	dir := t.TempDir()
	b := &bin{t: t, StandIn: StandIn{Dir: filepath.Join(dir, "bin")}, program: filepath.Join(dir, "standin")}
	if err := os.Mkdir(b.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.python = b.elf("%s --hook -i <hook_input>")
	b.put(pbsPython, b.python)
	if err := os.WriteFile(b.program, b.elf("HOOKHOST_REPLY_FD= one"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// elf is a program of this machine with some words in it.
func (b *bin) elf(words string) []byte {
	b.t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return append(text, words...)
}

func (b *bin) put(name string, content []byte) {
	b.t.Helper()
	os.Remove(b.path(name))
	if err := os.WriteFile(b.path(name), content, 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bin) is(want State) {
	b.t.Helper()
	if p, err := b.Inspect(b.program); err != nil || p.State != want {
		b.t.Fatalf("state %d (%s), %v: want %d", p.State, p.Why, err, want)
	}
}

func (b *bin) install() {
	b.t.Helper()
	if err := b.Install(b.program, "hookhost"); err != nil {
		b.t.Fatal(err)
	}
	b.is(StateStandIn)
	if !bytes.Equal(b.content(real), b.python) {
		b.t.Error("PBS's own is not beside the stand-in")
	}
}

func (b *bin) content(name string) []byte {
	b.t.Helper()
	c, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// uninstall has to leave PBS's own, and nothing else.
func (b *bin) uninstall() {
	b.t.Helper()
	if _, err := b.Uninstall(); err != nil {
		b.t.Fatal(err)
	}
	if got := b.names(); !slices.Equal(got, []string{pbsPython}) || !bytes.Equal(b.content(pbsPython), b.python) {
		b.t.Errorf("uninstall left %v", got)
	}
}

func (b *bin) names() []string {
	b.t.Helper()
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestStandInInstall(t *testing.T) {
	b := newBin(t)
	if err := os.Chmod(b.path(pbsPython), 0o751); err != nil {
		t.Fatal(err)
	}
	b.is(StateStock)
	b.install()
	if info, err := os.Stat(b.path(pbsPython)); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	noted, err := b.notes()
	if err != nil {
		t.Fatal(err)
	}
	if noted["hook"] != "hookhost" || noted["real_sha256"] != sum(b.python) {
		t.Errorf("notes %v", noted)
	}
	b.install() // again
	b.uninstall()
	b.uninstall() // again
	b.is(StateStock)

	// A newer stand-in takes the place of an older one.
	b.install()
	if err := os.WriteFile(b.program, b.elf("HOOKHOST_REPLY_FD= two"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p, err := b.Inspect(b.program); err != nil || !p.Outdated {
		t.Errorf("%+v, %v: want outdated", p, err)
	}
	b.install()
	b.uninstall()
}

// At whatever moment an installation or its opposite is cut off, pbs_python is whole, and both ways
// lead on from there.
func TestStandInIsCutOff(t *testing.T) {
	link := func(b *bin) {
		if err := os.Link(b.path(pbsPython), b.path(real)); err != nil {
			b.t.Fatal(err)
		}
	}
	note := func(b *bin) { b.put(notes, []byte("hook = hookhost\nreal_sha256 = "+sum(b.python)+"\n")) }
	for name, cut := range map[string]func(b *bin){
		"nothing done":              func(*bin) {},
		"half a note":               func(b *bin) { b.put(fresh, []byte("ho")) },
		"noted":                     note,
		"linked":                    func(b *bin) { note(b); link(b) },
		"half a stand-in":           func(b *bin) { note(b); link(b); b.put(fresh, []byte("\x7fELF")) },
		"done":                      func(b *bin) { b.install() },
		"put back, notes left":      func(b *bin) { b.install(); os.Rename(b.path(real), b.path(pbsPython)) },
		"linked, notes lost":        link,
		"stand-in there, no notes":  func(b *bin) { b.install(); os.Remove(b.path(notes)) },
		"stand-in there, half more": func(b *bin) { b.install(); b.put(fresh, nil) },
	} {
		t.Run(name+", install", func(t *testing.T) {
			b := newBin(t)
			cut(b)
			b.install()
			b.uninstall()
		})
		t.Run(name+", uninstall", func(t *testing.T) {
			b := newBin(t)
			cut(b)
			b.uninstall()
		})
	}
}

// An upgrade of PBS brings a new pbs_python: that is the one to keep, whatever is asked for.
func TestStandInAfterUpgrade(t *testing.T) {
	upgraded := func(t *testing.T) *bin {
		b := newBin(t)
		b.install()
		b.python = b.elf("--hook -i <hook_input> of a newer PBS")
		b.put(pbsPython, b.python)
		b.is(StateUpgraded)
		return b
	}
	upgraded(t).uninstall()
	b := upgraded(t)
	b.install()
	b.uninstall()

	// Cut off between the older one's removal and the newer one's link.
	b = upgraded(t)
	os.Remove(b.path(real))
	b.install()
	b.uninstall()
}

// A program that is not known is left as it is, both ways.
func TestStandInRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(b *bin)
		why     string
	}{
		{"a script", func(b *bin) { b.put(pbsPython, []byte("#!/bin/sh\nexec python3 --hook -i <x\n")) },
			"not a program of PBS's"},
		{"another program", func(b *bin) { b.put(pbsPython, b.elf("hello")) }, "not PBS's pbs_python"},
		{"cut off", func(b *bin) { b.put(pbsPython, b.python[:20]) }, "not a program of PBS's"},
		{"another machine", func(b *bin) {
			other := slices.Clone(b.python)
			other[18], other[19] = 3, 0 // e_machine: EM_386
			b.put(pbsPython, other)
		}, "not a program for this machine"},
		{"a link", func(b *bin) {
			os.Rename(b.path(pbsPython), b.path("elsewhere"))
			os.Symlink("elsewhere", b.path(pbsPython))
		}, "not a regular file"},
		{"somebody's copy beside it", func(b *bin) { b.put(real, []byte("#!/bin/sh\n")) },
			"was not put there by hookhost"},
		{"PBS's own is gone", func(b *bin) { b.install(); os.Remove(b.path(real)) }, "install PBS's package again"},
		{"PBS's own was changed", func(b *bin) { b.install(); b.put(real, b.elf("--hook -i <another>")) },
			"checksum differs"},
		{"PBS's own is rubbish", func(b *bin) { b.install(); b.put(real, []byte("x")) }, "not a program of PBS's"},
		{"the stand-in twice", func(b *bin) { b.install(); b.put(real, b.content(pbsPython)) }, "not PBS's pbs_python"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBin(t)
			tt.prepare(b)
			names, before := b.names(), b.content(pbsPython)
			_, uninstallErr := b.Uninstall()
			for what, err := range map[string]error{"install": b.Install(b.program, "hookhost"),
				"uninstall": uninstallErr} {
				if err == nil || !strings.Contains(err.Error(), tt.why) {
					t.Errorf("%s: %v, want %q", what, err, tt.why)
				}
			}
			if got := b.names(); !slices.Equal(got, names) || !bytes.Equal(b.content(pbsPython), before) {
				t.Errorf("files %v, before %v", got, names)
			}
		})
	}
	b := newBin(t)
	if err := b.Install(b.path(pbsPython), "hookhost"); err == nil ||
		!strings.Contains(err.Error(), "not the stand-in") {
		t.Errorf("PBS's own as stand-in: %v", err)
	}
	os.Remove(b.path(pbsPython))
	if err := b.Install(b.program, "hookhost"); err == nil {
		t.Error("installed where there is no PBS")
	}
}
