package pbs

import (
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

func TestIsHostNameRefusesPathsPatternsAndLists(t *testing.T) {
	for _, name := range []string{"n1", "N1.cluster", "n_1-a", "10.0.0.1", strings.Repeat("n", 253)} {
		if !IsHostName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", ".n1", "-n1", "*.cluster", "n1/..", "n1+n2", "n1 ", "n1\n", "fe80::1",
		strings.Repeat("n", 254)} {
		if IsHostName(name) {
			t.Errorf("%q is a host name", name)
		}
	}
}
