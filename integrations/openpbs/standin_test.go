package openpbs

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// bin is a PBS_EXEC/bin with some pbs_python, and a stand-in beside the folder.
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
	must.NoError(t, os.Mkdir(b.Dir, 0o755))
	b.python = []byte("PBS's own")
	b.put(pbsPython, b.python)
	must.NoError(t, os.WriteFile(b.program, []byte("HOOKHOST_REPLY_FD= one"), 0o755))
	return b
}

func (b *bin) put(name string, content []byte) {
	b.t.Helper()
	os.Remove(b.path(name))
	must.NoError(b.t, os.WriteFile(b.path(name), content, 0o755))
}

func (b *bin) is(want Place) {
	b.t.Helper()
	if p, err := b.Inspect(b.program); err != nil || p != want {
		b.t.Fatalf("%+v, %v: want %+v", p, err, want)
	}
}

func (b *bin) install() {
	b.t.Helper()
	must.NoError(b.t, b.Install(b.program))
	b.is(Place{StandIn: true})
	if !bytes.Equal(b.content(real), b.python) {
		b.t.Error("PBS's own is not beside the stand-in")
	}
}

func (b *bin) content(name string) []byte {
	b.t.Helper()
	c, err := os.ReadFile(b.path(name))
	must.NoError(b.t, err)
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
	must.NoError(b.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestStandInInstall(t *testing.T) {
	b := newBin(t)
	must.NoError(t, os.Chmod(b.path(pbsPython), 0o751))
	b.is(Place{})
	b.install()
	if info, err := os.Stat(b.path(pbsPython)); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.install() // again
	b.uninstall()
	b.uninstall() // again
	b.is(Place{})

	// A newer stand-in takes the place of an older one.
	b.install()
	must.NoError(t, os.WriteFile(b.program, []byte("HOOKHOST_REPLY_FD= two"), 0o755))
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
		must.NoError(b.t, os.Link(b.path(pbsPython), b.path(real)))
	}
	note := func(b *bin) { b.put(notes, []byte("# notes\n")) }
	for name, cut := range map[string]func(b *bin){
		"nothing done":             func(*bin) {},
		"noted":                    note,
		"linked":                   func(b *bin) { note(b); link(b) },
		"done":                     func(b *bin) { b.install() },
		"put back, notes left":     func(b *bin) { b.install(); os.Rename(b.path(real), b.path(pbsPython)) },
		"linked, notes lost":       link,
		"stand-in there, no notes": func(b *bin) { b.install(); os.Remove(b.path(notes)) },
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
		b.python = []byte("of a newer PBS")
		b.put(pbsPython, b.python)
		b.is(Place{Lost: true})
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
		{"a link", func(b *bin) {
			os.Rename(b.path(pbsPython), b.path("elsewhere"))
			os.Symlink("elsewhere", b.path(pbsPython))
		}, "not a regular file"},
		{"somebody's copy beside it", func(b *bin) { b.put(real, []byte("#!/bin/sh\n")) },
			"not put there by hookhost"},
		{"PBS's own is gone", func(b *bin) { b.install(); os.Remove(b.path(real)) }, "install PBS's package again"},
		{"the stand-in twice", func(b *bin) { b.install(); b.put(real, b.content(pbsPython)) },
			"install PBS's package again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBin(t)
			tt.prepare(b)
			names, before := b.names(), b.content(pbsPython)
			_, uninstallErr := b.Uninstall()
			for what, err := range map[string]error{"install": b.Install(b.program),
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
	if err := b.Install(b.path(pbsPython)); err == nil ||
		!strings.Contains(err.Error(), "not the stand-in") {
		t.Errorf("PBS's own as stand-in: %v", err)
	}
	os.Remove(b.path(pbsPython))
	if err := b.Install(b.program); err == nil {
		t.Error("installed where there is no PBS")
	}
}
