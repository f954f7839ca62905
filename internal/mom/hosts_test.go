package mom

import (
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// failsWith reports whether an error has a text; "" is no error.
func failsWith(err error, want string) bool {
	return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
}

func TestHostsAreSplitAtCommas(t *testing.T) {
	for _, tt := range []struct {
		given []string
		want  []string
		err   string
	}{
		{nil, nil, ""},
		{[]string{"n1"}, []string{"n1"}, ""},
		{[]string{"n1,n2", "n3.cluster"}, []string{"n1", "n2", "n3.cluster"}, ""},
		{[]string{"n1", " n2 , n3"}, []string{"n1", "n2", "n3"}, ""},
		{[]string{"n1", "n1.cluster"}, nil, "--host n1.cluster: it is there already, as n1"},
		{[]string{"n1,"}, nil, `--host "": not a host name`},
		{[]string{"../n1"}, nil, "not a host name"},
		{[]string{"n1+n2"}, nil, "not a host name"},
	} {
		got, err := splitHosts(tt.given)
		if !failsWith(err, tt.err) || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v", tt.given, got, err)
		}
	}
}

func TestFirstHostOfAJobIsThisOne(t *testing.T) {
	for _, tt := range []struct {
		named []string
		want  string
		err   string
	}{
		{nil, "n1", ""},
		{[]string{"n1"}, "n1", ""},
		{[]string{"n1.cluster", "n2"}, "n1 n2", ""}, // exec_vnode has this host's own name of itself
		{[]string{"n2", "n1"}, "", "--host n2: the first host has to be this one, which is n1"},
	} {
		got, err := (&Request{Hosts: tt.named}).On("n1")
		if !failsWith(err, tt.err) || err == nil && strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, %v", tt.named, got, err)
		}
	}
}

func TestEachHostGetsAChunk(t *testing.T) {
	hosts := []string{"n1", "n2", "n3"}
	for sel, want := range map[string]string{
		"3:ncpus=1": "", "1:ncpus=4+2:ncpus=1": "", "5:ncpus=1": "",
		"2:ncpus=1": "--host n3: it gets none of 2 chunks: ask for one for each host, such as -l select=3:ncpus=1",
		"ncpus=4":   "--host n2: it gets none of 1 chunk",
	} {
		chunks, err := pbs.ParseSelect(sel)
		must.NoError(t, err)
		if err := checkChunks(hosts, chunks); !failsWith(err, want) {
			t.Errorf("select=%s: %v, want %q", sel, err, want)
		}
	}
	if err := checkChunks(nil, []pbs.Chunk{{Count: 1}}); err != nil {
		t.Error(err)
	}
}
