package main_test

import (
	"strings"
	"testing"
)

// A resource that nobody knows is told of, and no more: a site's own hook may know it.
func TestUnknownResource(t *testing.T) {
	n := newNode(t, "[[device]]\nresource = \"fpgas\"\npaths = [\"/dev/null\"]\n")
	const told = "neither PBS nor the configuration has such a resource"
	for asks, want := range map[string]string{
		"walltme=10":                            "hookhost: run: -l walltme: " + told + "\n",
		"select=1:ncpus=1:foo=1:mem=64mb":       "hookhost: run: -l foo: " + told + "\n",
		"ncpus=1,pids=100,walltime=60,cput=10":  "",
		"walltime_signal=@10,WALLTIME=60":       "",
		"select=1:ncpus=1:rlimit_nofile=64":     "",
		"select=1:ncpus=1:fpgas=0,kill_delay=1": "",
	} {
		r := n.hookhost("run", "--report=none", "-l", asks, "--", "true")
		if r.status != 0 || r.stderr != want {
			t.Errorf("%s: %d, stderr %q, want %q", asks, r.status, r.stderr, want)
		}
	}
	r := n.hookhost("run", "--report=none", "-l", "walltime=600,walltime_signal=USR1@300,TERM@60", "--", "true")
	if r.status == 0 || !strings.Contains(r.stderr,
		"resource TERM@60: no value; several signals of walltime_signal are joined with +") {
		t.Errorf("%+v", r)
	}
}
