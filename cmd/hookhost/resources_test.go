package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A resource that nobody knows is refused, as by qsub. The server's custom resources are known
// where pbs_mom has them.
func TestUnknownResourceIsRefused(t *testing.T) {
	home := t.TempDir()
	must.NoError(t, os.MkdirAll(home+"/mom_priv/hooks", 0o755),
		os.WriteFile(home+"/mom_priv/hooks/resourcedef", []byte("tapes type=long flag=nh\n"), 0o644))
	n := newNode(t, "[[device]]\nresource = \"fpgas\"\npaths = [\"/dev/null\"]\n[openpbs]\nhome = \""+home+"\"\n")
	for asks, unknown := range map[string]string{
		"walltme=10":                            "walltme",
		"ncpus=1,ngpu=1":                        "ngpu",
		"select=1:ncpus=1:foo=1:mem=64mb":       "foo",
		"ncpus=1,pids=100,walltime=60,cput=10":  "",
		"walltime_signal=@10,WALLTIME=60":       "",
		"select=1:ncpus=1:rlimit_nofile=64":     "",
		"select=1:ncpus=1:fpgas=0,kill_delay=1": "",
		"select=1:ncpus=1:Tapes=2":              "",
	} {
		status, says := 0, ""
		if unknown != "" {
			status, says = 2, "hookhost: run: Unknown resource: "+unknown+
				": neither PBS nor the configuration has it: see 'hookhost run --help'\n"
		}
		r := n.hookhost("run", "--report=none", "-l", asks, "--", "true")
		if r.status != status || r.stderr != says {
			t.Errorf("%s: %d, stderr %q, want %q", asks, r.status, r.stderr, says)
		}
	}
	r := n.hookhost("run", "--report=none", "-l", "walltime=600,walltime_signal=USR1@300,TERM@60", "--", "true")
	if r.status == 0 || !strings.Contains(r.stderr,
		"resource TERM@60: no value; several signals of walltime_signal are joined with +") {
		t.Errorf("%+v", r)
	}
}
