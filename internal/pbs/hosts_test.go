package pbs

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestHostsAreInTheOrderOfChunks(t *testing.T) {
	for _, tt := range []struct{ name, vnode, host2, want string }{
		{"nothing", "", "", ""},
		{"one host", "(n1:ncpus=2)", "", "n1"},
		{"in order, each once", "(n2:ncpus=1)+(n1:ncpus=1)+(n2:ncpus=1)", "", "n2 n1"},
		{"vnodes of NUMA nodes", "(n1[0]:ncpus=1+n1[1]:ncpus=1)+(n2[0]:ncpus=1)", "", "n1 n2"},
		{"exec_host2", "(a:ncpus=1)+(b:ncpus=1)", "n1.x:15002/0*2+n2.x:15002/0+n1.x:15002/1", "n1.x n2.x"},
		{"without a port", "", "n1/0+n2/0*4", "n1 n2"},
		{"no index", "", "n1:15002", "!"},
		{"no host", "", ":15002/0", "!"},
		{"a port that is none", "", "n1:x/0", "!"},
		{"empty part", "", "n1:15002/0+", "!"},
		{"control character", "", "n1\n:15002/0", "!"},
		{"not an exec_vnode", "n1)", "", "!"},
		{"long", "", strings.Repeat("n/0+", maxChunks) + "n/0", "!"},
	} {
		hosts, err := Hosts(tt.vnode, tt.host2)
		got := strings.Join(hosts, " ")
		if err != nil {
			got = "!"
		}
		if got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestSameHost(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"n1", "n1", true}, {"n1", "n1.cluster", true}, {"n1.cluster", "n1.cluster", true},
		{"n1", "n1.cluster.example", true},
		{"n1.a", "n1.b", false}, {"n1.a", "n1.a.b", false}, {"n1", "n11", false}, {"n1", "n2", false}, {"", "", false},
		{"", "n1", false}, {"", ".n1", false},
		{"10", "10.0.0.1", false}, {"10.0.0.1", "10.0.0.1", true}, {"10.0.0.1", "10.0.0.2", false},
	} {
		if SameHost(tt.a, tt.b) != tt.want || SameHost(tt.b, tt.a) != tt.want {
			t.Errorf("SameHost(%q, %q) is not %t", tt.a, tt.b, tt.want)
		}
	}
}

// FuzzHosts reads where a job runs, and what it has on each host there.
func FuzzHosts(f *testing.F) {
	f.Add("(n1:ncpus=2:mem=1gb)+(n2:ncpus=1+n2[1]:x=1.5)", "n1.a:15002/0*2+n2.a:15002/0",
		"1:ncpus=2+1:ncpus=1:mpiprocs=4")
	f.Add("(n1:mpiprocs=x)", "n1/0", "")
	f.Add("(n1:x="+strings.Repeat("9", 308)+")+(n1:x="+strings.Repeat("9", 308)+")", "", "3")
	f.Add("", "+", "100000")
	f.Fuzz(func(t *testing.T, execVnode, execHost2, schedselect string) {
		hosts, err := Hosts(execVnode, execHost2)
		if err != nil {
			checkOneLine(t, err)
		}
		for i, host := range hosts {
			if !isVnode(host) || slices.Contains(hosts[:i], host) {
				t.Errorf("%q, %q: hosts %q", execVnode, execHost2, hosts)
			}
		}
		slots, err := Hostfile(execVnode, execHost2, schedselect, "n1")
		switch {
		case err != nil:
			checkOneLine(t, err)
		case len(slots) == 0 ||
			slices.ContainsFunc(slots, func(s HostSlots) bool { return s.Slots < 0 || s.Threads < 0 }):
			t.Errorf("%q, %q, %q: %v", execVnode, execHost2, schedselect, slots)
		}
		chunks, err := ParseExecVnode(execVnode)
		if err != nil {
			return
		}
		for _, c := range chunks {
			share, err := OnHost(chunks, c.Host)
			if err != nil {
				checkOneLine(t, err)
			}
			for name, value := range share.Other {
				if strings.Contains(value, "Inf") && !strings.Contains(execVnode, "Inf") || share.NCPUs < 0 ||
					share.NGPUs < 0 {
					t.Errorf("%q: %s=%s of %+v", execVnode, name, value, share)
				}
			}
		}
	})
}

// FuzzConf reads a pbs.conf, and the same once more as it was read.
func FuzzConf(f *testing.F) {
	f.Add("PBS_EXEC=/opt/pbs/\nPBS_HOME=/var/spool/pbs\n# PBS_MOM_HOME=/x\n =\nA=b=c")
	f.Fuzz(func(t *testing.T, text string) {
		conf := Conf(text)
		again := ""
		for key, value := range conf {
			again += key + "=" + value + "\n"
		}
		if got := Conf(again); !maps.Equal(got, conf) {
			t.Errorf("%q: %q, then %q", text, conf, got)
		}
		if Exec(conf) == "" {
			t.Errorf("%q: PBS is nowhere", text)
		}
	})
}
