package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// momNode is a node whose MoM has hookhost's hook.
type momNode struct {
	t *testing.T
	*cli
	dir string // of MoM's hooks
}

func newMoMNode(t *testing.T) *momNode {
	t.Helper()
	home := t.TempDir()
	n := &momNode{t: t, cli: &cli{config: filepath.Join(home, "hookhost.toml"), state: filepath.Join(home, "state")}, dir: string(openpbs.HooksOf(home))}
	for _, dir := range []string{n.dir, n.state} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	n.write(n.config, "openpbs.home = '"+home+"'\n[memory]\ndefault = '2gb'\n")
	n.write(filepath.Join(n.dir, "a.PY"), "import pbs\n")
	n.write(filepath.Join(n.dir, "h.PY"), string(openpbs.Script("")))
	return n
}

func (n *momNode) write(path, text string) {
	n.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		n.t.Fatal(err)
	}
}

func (n *momNode) sent() string { return filepath.Join(n.dir, "h.CF") }

func (n *momNode) read() settings {
	n.t.Helper()
	s, err := n.settings(true)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func TestNodesConfigurationIsPBSsBelowItsOwn(t *testing.T) {
	n := newMoMNode(t)
	if s := n.read(); s.refused != nil || s.sent != nil || s.file.Memory.Default != 2<<30 {
		t.Errorf("without one of PBS's: %+v", s)
	}
	n.write(n.sent(), "[memory]\ndefault = '1gb'\nreserve_percent = 9.0\n")
	if s := n.read(); s.refused != nil || s.file.Memory.Default != 2<<30 || s.file.Memory.ReservePercent != 9 {
		t.Errorf("%+v", s)
	}
	n.write(n.config, "[shim]\nwait = '1s'\n")
	if _, err := n.settings(true); err == nil || !strings.Contains(err.Error(), "hookhost.toml: line 2: shim.wait: the shim reads it only") {
		t.Errorf("[shim] in the node's own file: %v", err)
	}
}

func TestConfigurationThatDoesNotHoldLeavesTheOneBefore(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *momNode) error
		want   string
	}{
		{"unknown key", func(n *momNode) error { n.write(n.sent(), "\n[memory]\nx = 1"); return nil }, `line 3: unknown key "memory.x"`},
		{"of one node", func(n *momNode) error { n.write(n.sent(), "host.node = 'n'"); return nil }, "line 1: host.node: only"},
		{"against the own", func(n *momNode) error { n.write(n.sent(), "memory.high_percent = 100.0"); return nil }, "memory.high_percent = 100"},
		{"empty", func(n *momNode) error { n.write(n.sent(), ""); return nil }, "h.CF: empty: pbs_mom has not written it yet"},
		{"long", func(n *momNode) error { n.write(n.sent(), strings.Repeat("#\n", 1<<15)); return nil }, "h.CF: want 65535 bytes at most"},
		{"others may write it", func(n *momNode) error { return os.Chmod(n.sent(), 0o720) }, "h.CF: others than root may write it"},
		{"in a folder of others", func(n *momNode) error { return os.Chmod(n.dir, 0o777) }, "hooks: others than root may write it"},
		{"another's", func(n *momNode) error { return os.Chown(n.sent(), 65534, 0) }, "h.CF: others than root may write it"},
		{"a link", func(n *momNode) error { os.Remove(n.sent()); return os.Symlink(n.config, n.sent()) }, "too many levels of symbolic links"},
		{"a folder", func(n *momNode) error { os.Remove(n.sent()); return os.Mkdir(n.sent(), 0o700) }, "h.CF: not a regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if os.Geteuid() != 0 && tt.name == "another's" {
				t.Skip("needs root, to give a file away")
			}
			n := newMoMNode(t)
			n.write(n.sent(), "[memory]\nreserve_percent = 1.0\n")
			if err := tt.change(n); err != nil {
				t.Fatal(err)
			}
			s := n.read()
			if s.refused == nil || !strings.Contains(s.refused.Error(), tt.want) || s.sent != nil || s.file.Memory.ReservePercent != 2 {
				t.Errorf("none before: %v, want %q; sent %q", s.refused, tt.want, s.sent)
			}
			if err := nodestate.Dir(n.state).SetConfiguration([]byte("[memory]\nreserve_percent = 5.0\n")); err != nil {
				t.Fatal(err)
			}
			s = n.read()
			if s.refused == nil || s.file.Memory.ReservePercent != 5 || s.file.Memory.Default != 2<<30 {
				t.Errorf("with one before: %v; %+v", s.refused, s.file.Memory)
			}
		})
	}
}

func TestConfigurationCountsOfTheMoMThatTheConfigurationNamesAndOfOneThatCameLater(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	link := filepath.Join(other, "link")
	for _, err := range []error{os.MkdirAll(string(openpbs.HooksOf(home)), 0o750), os.Symlink(home, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(other, "pbs.conf")
	none, named, linked := "", string(openpbs.HooksOf(home)), string(openpbs.HooksOf(link))
	for _, tt := range []struct {
		name       string
		dir        *string
		conf, home string
		want       string
	}{
		{"the configuration's", &named, "", home, named},
		{"the configuration's by another path", &linked, "", home, linked},
		{"another's", &named, "", other, ""},
		{"of no home that is known", &named, "", "", ""},
		{"before the configuration is in force", nil, "", home, ""},
		{"PBS that came later", &none, "PBS_HOME=" + home + "\n", home, named},
		{"another's beside PBS that came later", &none, "PBS_HOME=" + home + "\n", other, ""},
		{"another's without a pbs.conf", &none, "", other, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(conf, []byte(tt.conf), 0o600); err != nil {
				t.Fatal(err)
			}
			b := &backend{}
			b.openPBS.Store(&config.OpenPBS{Conf: conf})
			b.pbs.dir.Store(tt.dir)
			if got := b.hooksOf(tt.home); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestRemarkInACommentIsAddedAndTakenBack(t *testing.T) {
	const remark = "hookhost: x"
	for _, tt := range []struct{ before, with, later, without string }{
		{"", remark, remark, ""},
		{"the disk", "the disk; " + remark, "the disk; " + remark, "the disk"},
		{"", remark, remark + "; the disk", "the disk"},
		{"a", "a; " + remark, "a; " + remark + " b", "a b"},
		{"a", "a; " + remark, "c", "c"},
	} {
		if got := withRemark(tt.before, remark); got != tt.with {
			t.Errorf("%q with it: %q, want %q", tt.before, got, tt.with)
		}
		if got := withoutRemark(tt.later, remark); got != tt.without {
			t.Errorf("%q without it: %q, want %q", tt.later, got, tt.without)
		}
	}
	if got := withoutRemark("a; b", ""); got != "a; b" {
		t.Errorf("without nothing: %q", got)
	}
}

// A daemon that is not the owner yet looks, and changes nothing.
func TestConfigurationOfAnotherPrefixWaitsUntilNoJobLives(t *testing.T) {
	c := &cli{socket: filepath.Join(t.TempDir(), "s")}
	before, sent := &config.File{}, &config.File{}
	before.Cgroup.Prefix, sent.Cgroup.Prefix = "before", "sent"
	record := filepath.Join(c.recordsDir("before"), "1.x.json")
	for _, jobs := range []bool{false, true} {
		if jobs {
			err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o700), os.WriteFile(record, []byte("rubbish"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
		}
		s := settings{before: before, file: sent, sent: []byte("x")}
		if err := c.stay(&s); err != nil {
			t.Fatal(err)
		}
		if waits := s.file == before; waits != jobs || waits != (s.refused != nil) {
			t.Errorf("jobs %t: prefix %s, refused: %v", jobs, s.file.Cgroup.Prefix, s.refused)
		}
	}
	if _, err := os.Stat(record); err != nil {
		t.Error(err)
	}
}
