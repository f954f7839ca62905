package main_test

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/must"
)

// config is the configuration that the server has of the hook.
func (s *pbsServer) config() string {
	s.t.Helper()
	h := s.hook("hookhost")
	if h == nil || h.Config == nil {
		return ""
	}
	b, err := base64.StdEncoding.DecodeString(*h.Config)
	must.NoError(s.t, err)
	return string(b)
}

func TestOpenPBSConfigIsCheckedAndHandedToPBS(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	const text = "# of this site\n[memory]\ndefault = \"1gb\"\nenabled = \"vntype not in: login\"\n[shim]\nwait = " +
		"\"9s\"\n"
	s.touch("site.toml", text)
	s.refused([]string{"config", s.path("site.toml")}, "there is no hook hookhost: hookhost openpbs install")
	s.refused([]string{"config"}, "there is no hook hookhost")
	s.hookhost("install")
	if out := s.hookhost("config"); out != openpbs.NoConfig {
		t.Errorf("without one it prints %q", out)
	}
	s.log()
	if out := s.hookhost("config", "--dry-run", s.path("site.toml")); !strings.Contains(out,
		"import hook hookhost application/x-config") || s.config() != "" {
		t.Errorf("--dry-run: %q, and PBS has %q", out, s.config())
	}
	s.hookhost("config", s.path("site.toml"))
	if s.config() != text || s.hookhost("config") != text {
		t.Errorf("PBS has %q", s.config())
	}
	s.log()
	if out := s.hookhost("config", s.path("site.toml")); !strings.Contains(out, "already") || s.log()[0] != "" {
		t.Errorf("once more: %q", out)
	}
	for bad, want := range map[string]string{
		"[memory]\ndefault = \"banana\"": "site.toml: line 2: memory.default",
		"\n[memroy]\nenabled = true":     "site.toml: line 2: unknown key \"memroy",
		"[host]\nnode = \"n1\"":          "site.toml: line 2: host.node: only the configuration of a node",
		"[shim]\nwait = \"1m\"":          "site.toml: line 2: shim.wait = \"1m\": want whole seconds",
		"[cpu]\ncfs_period = \"2s\"":     "site.toml: cpu.cfs_period = 2s: want 1ms to 1s",
		"#" + strings.Repeat("x", 1<<16): "65537 bytes: want 65535 at most",
	} {
		s.touch("site.toml", bad)
		s.refused([]string{"config", s.path("site.toml")}, want)
	}
	if s.config() != text {
		t.Errorf("refused, and PBS has %q", s.config())
	}
	s.refused([]string{"config", s.path("none.toml")}, "no such file")
	s.refused([]string{"config", "--remove", s.path("site.toml")}, "either FILE or --remove")
	s.hookhost("config", "--remove")
	if s.config() != openpbs.NoConfig {
		t.Errorf("removed, and PBS has %q", s.config())
	}
}

func TestOpenPBSConfigPrintsWhatItDoes(t *testing.T) {
	must.BesideOthers(t)
	s := newPBSServer(t)
	text := "[memory]\ndefault = \"1gb\"\n" + strings.Repeat("# $HOME `id` it's\n", 200)
	s.touch("site.toml", text)
	script := s.hookhost("config", "--print", s.path("site.toml"))
	if _, complaints, status := s.command([]byte(script), "sh"); status == 0 ||
		!strings.Contains(complaints, "there is no hook hookhost") {
		t.Errorf("without a hook: exit status %d, %s", status, complaints)
	}
	s.hookhost("install")
	if _, complaints, status := s.command([]byte(script), "sh"); status != 0 || s.config() != text {
		t.Errorf("exit status %d, %s; PBS has %q", status, complaints, s.config())
	}
	s.importScript("hookhost", "import pbs\n")
	if _, complaints, status := s.command([]byte(script), "sh"); status == 0 ||
		!strings.Contains(complaints, "not hookhost's") {
		t.Errorf("another's hook: exit status %d, %s", status, complaints)
	}
}

// The file of the node may not say what only PBS's can.
func TestShimSettingsInTheNodesOwnFileAreRefused(t *testing.T) {
	n := newNode(t)
	text, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(t, err, os.WriteFile(n.path("hookhost.toml"), append(text, "\n[shim]\nwait = \"9s\"\n"...), 0o600))
	for _, args := range [][]string{{"config", "check"}, {"config", "show"}, {"serve"}} {
		if r := n.hookhost(args...); r.status != 2 ||
			!strings.Contains(r.stderr, "shim.wait: the shim reads it only where PBS has sent it") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
