package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// momNode is a node whose MoM has hookhost's hook.
type momNode struct {
	t *testing.T
	Source
	pbs config.OpenPBS
	dir string // of MoM's hooks
}

func newMoMNode(t *testing.T) *momNode {
	t.Helper()
	home := t.TempDir()
	n := &momNode{
		t: t, Source: Source{File: filepath.Join(home, "hookhost.toml"), State: filepath.Join(home, "state")},
		dir: string(openpbs.HooksOf(home)),
	}
	for _, dir := range []string{n.dir, n.State} {
		must.NoError(t, os.MkdirAll(dir, 0o750))
	}
	n.write(filepath.Join(home, "pbs.conf"), "PBS_HOME="+home+"\nPBS_MOM_NODE_NAME=n7\n")
	n.pbs = config.OpenPBS{Conf: filepath.Join(home, "pbs.conf")}
	n.write(filepath.Join(n.dir, "a.PY"), "import pbs\n")
	n.write(filepath.Join(n.dir, "h.PY"), string(openpbs.Script("")))
	return n
}

func (n *momNode) write(path, text string) {
	n.t.Helper()
	must.NoError(n.t, os.WriteFile(path, []byte(text), 0o700))
}

// sends has PBS send a text.
func sends(text string) func(n *momNode) error {
	return func(n *momNode) error { n.write(n.sent(), text); return nil }
}

func (n *momNode) sent() string { return filepath.Join(n.dir, "h.CF") }

func (n *momNode) settings() Settings {
	n.t.Helper()
	if _, err := os.Stat(n.File); err == nil {
		s, err := n.Read(false)
		must.NoError(n.t, err)
		return s
	}
	s, err := n.readSent(n.pbs)
	must.NoError(n.t, err)
	return s
}

func TestNodesOwnFileIsInForceElsePBSs(t *testing.T) {
	n := newMoMNode(t)
	if s := n.settings(); s.Refused != nil || s.InForce != nil || s.Path != "" || s.File.Memory.Default != 0 {
		t.Errorf("without a file: %+v", s)
	}
	n.write(n.sent(), "[memory]\ndefault = '1gb'\nreserve_percent = 9.0\nsoft_limit = 'host in: n7'\n")
	if s := n.settings(); s.Refused != nil || s.File.Memory.Default != 1<<30 || s.File.Memory.ReservePercent != 9 ||
		!s.File.Memory.SoftLimit || s.Path != n.sent() {
		t.Errorf("PBS's: %+v", s)
	}
	n.write(n.File, "openpbs.conf = '"+n.pbs.Conf+"'\n[memory]\ndefault = '2gb'\n")
	if s := n.settings(); s.Refused != nil || !s.Own || s.InForce != nil || s.Path != n.File ||
		s.File.Memory.Default != 2<<30 || s.File.Memory.ReservePercent != 2 || s.PBS.Path != n.sent() {
		t.Errorf("the node's own: %+v", s)
	}
	n.write(n.File, "[shim]\nwait = '1s'\n")
	const want = "hookhost.toml: line 2: shim.wait: the shim reads it only"
	if _, err := n.Read(true); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("[shim] in the node's own file: %v", err)
	}
}

func TestNodeHasTheNameThatPBSConfOrItsOwnFileSays(t *testing.T) {
	n := newMoMNode(t)
	conf := "openpbs.conf = '" + n.pbs.Conf + "'\n"
	for own, want := range map[string]string{conf: "n7", conf + "host.node = 'n8'": "n8", "openpbs.conf = ''": ""} {
		n.write(n.File, own)
		if want == "" {
			host, err := pbs.HostName()
			must.NoError(t, err)
			want = host
		}
		s := n.settings()
		got, err := Node(s.File)
		if err != nil || got != want || s.File.Here().Host != want {
			t.Errorf("%q: node %q, host of conditions %q, %v, want %q", own, got, s.File.Here().Host, err, want)
		}
	}
}

func TestConfigurationThatDoesNotHoldLeavesTheOneBefore(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *momNode) error
		want   string
	}{
		{"unknown key", sends("\n[memory]\nx = 1"), `line 3: unknown key "memory.x"`},
		{"of one node", sends("host.node = 'n'"), "line 1: host.node: only"},
		{"bad value", sends("memory.high_percent = 100.0"), "h.CF: memory.high_percent = 100"},
		{"empty", sends(""), "h.CF: empty: pbs_mom has not written it yet"},
		{"long", sends(strings.Repeat("#\n", 1<<15)), "h.CF: more than 65535 bytes"},
		{"others may write it", func(n *momNode) error { return os.Chmod(n.sent(), 0o720) },
			"h.CF: mode 0720 lets others write to it"},
		{"in a folder of others", func(n *momNode) error { return os.Chmod(n.dir, 0o777) },
			"hooks: mode 0777 lets others write to it"},
		{"another's", func(n *momNode) error { return os.Chown(n.sent(), 65534, 0) },
			"h.CF: owned by uid 65534"},
		{"a folder", func(n *momNode) error { os.Remove(n.sent()); return os.Mkdir(n.sent(), 0o700) },
			"h.CF: not a regular file"},
		{"hooks that cannot be read", func(n *momNode) error { os.RemoveAll(n.dir); n.write(n.dir, ""); return nil },
			"look for PBS's configuration: open "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if os.Geteuid() != 0 && tt.name == "another's" {
				t.Skip("needs root, to give a file away")
			}
			n := newMoMNode(t)
			n.write(n.sent(), "[memory]\nreserve_percent = 1.0\n")
			must.NoError(t, tt.change(n))
			s := n.settings()
			if s.Refused == nil || !strings.Contains(s.Refused.Error(), tt.want) || s.InForce != nil ||
				s.File.Memory.ReservePercent != 2 || s.Instead() != "the defaults are" {
				t.Errorf("with none before: %v, want %q; sent %q", s.Refused, tt.want, s.InForce)
			}
			must.NoError(t, nodestate.Dir(n.State).SetConfiguration([]byte("[memory]\nreserve_percent = 5.0\n")))
			s = n.settings()
			if s.Refused == nil || s.File.Memory.ReservePercent != 5 || s.Instead() != "the one before is" {
				t.Errorf("with one before: %v; %+v", s.Refused, s.File.Memory)
			}
			must.NoError(t, nodestate.Dir(n.State).SetConfiguration([]byte("[memory]\ngone = 1\n")))
			if _, err := n.readSent(n.pbs); err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), `unknown key "memory.gone"`) {
				t.Errorf("with one before that does not hold either: %v", err)
			}
		})
	}
}

func TestConfigurationOfAnotherPrefixWaitsUntilNoJobLives(t *testing.T) {
	before, sent := &config.File{}, &config.File{}
	before.Cgroup.Prefix, sent.Cgroup.Prefix = "before", "sent"
	for jobs := range 2 {
		s := Settings{before: &Settings{File: before}, File: sent, InForce: []byte("x")}
		counted := ""
		err := s.Stay(func(prefix string) (int, error) { counted = prefix; return jobs, nil })
		if err != nil || counted != "before" {
			t.Fatalf("%v, counted the jobs of %q", err, counted)
		}
		if waits := s.File == before; waits != (jobs > 0) || waits != (s.Refused != nil) {
			t.Errorf("%d jobs: prefix %s, refused: %v", jobs, s.File.Cgroup.Prefix, s.Refused)
		}
	}
}
