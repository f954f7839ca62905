package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/nodestate"
)

func amounts(ncpus, mem, vmem string) *hostapi.Vnode {
	r := hostapi.Resources{"ncpus": ncpus, "mem": mem}
	if vmem != "" {
		r["vmem"] = vmem
	}
	return &hostapi.Vnode{ResourcesAvailable: r}
}

// TestNaturalVnodeHasWhatTheSitesVnodesLeave uses a host of 4 cpus and 8 GiB.
func TestNaturalVnodeHasWhatTheSitesVnodesLeave(t *testing.T) {
	host := offer{ncpus: 4, mem: 8 * gib, vmem: 10 * gib}
	for _, tt := range []struct {
		name    string
		natural *hostapi.Vnode
		site    []*hostapi.Vnode
		want    offer
	}{
		{name: "none", natural: amounts("2", "1gb", ""), want: host},
		{name: "two of them", site: []*hostapi.Vnode{amounts("1", "2gb", ""), amounts("2", "3gb", "4gb")},
			want: offer{ncpus: 1, mem: 3 * gib, vmem: 4 * gib}},
		{name: "all of it", site: []*hostapi.Vnode{amounts("4", "8gb", "10gb")}},
		{name: "more than there is", site: []*hostapi.Vnode{amounts("8", "16gb", "")}},
		{name: "the natural one has nothing", natural: amounts("0", "0kb", ""),
			site: []*hostapi.Vnode{amounts("1", "2gb", "")}},
		{name: "the natural one has a part", natural: amounts("1", "1gb", "2gb"),
			site: []*hostapi.Vnode{amounts("1", "2gb", "")}, want: offer{ncpus: 1, mem: gib, vmem: 2 * gib}},
		{name: "a vnode without cpus and memory", natural: amounts("0", "0kb", ""),
			site: []*hostapi.Vnode{{ResourcesAvailable: hostapi.Resources{"licences": "3"}}}, want: host},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := host.without(tt.natural, tt.site); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestVnodesThatAreTakenBackHaveNothing turns vnode_per_numa_node off again. MoM continues to list
// the vnodes, and the site has defined one with such a name.
func TestVnodesThatAreTakenBackHaveNothing(t *testing.T) {
	roots := fixture(t, "two-sockets-ht")
	perNUMA, whole := policyOf(t, func(f *config.File) { f.Vnodes.PerNUMANode = true }), policyOf(t, nil)
	h, huge := hostOf(t, roots, whole)
	first := perNUMA.vnodes(h, huge, testNode, "", nil, nil)
	kept := nodestate.Dir(t.TempDir())
	must.NoError(t, kept.SetVnodes(toNote(first, testNode, nil, nil)))
	noted, err := kept.Vnodes()
	must.NoError(t, err)
	if len(noted) != 4 || noted[testNode] != nil {
		t.Fatalf("noted: %v", noted)
	}

	listed := map[string]*hostapi.Vnode{
		testNode: first[testNode], testNode + "[0]": first[testNode+"[0]"], testNode + "[1]": amounts("1", "1gb", ""),
	}
	listed[testNode+"[0]"].ResourcesAvailable["ngpus"] = "2"
	if stale, site := perNUMA.othersVnodes(h.node, testNode, listed, noted); len(stale)+len(site) > 0 {
		t.Errorf("still told: %v, %v", stale, site)
	}
	stale, site := whole.othersVnodes(h.node, testNode, listed, noted)
	must.Equal(t, "stale", map[string]*hostapi.Vnode{testNode + "[0]": {ResourcesAvailable: hostapi.Resources{
		"ncpus": "0", "mem": "0kb", "vmem": "0kb", "hpmem": "0kb", "ngpus": "0"}}}, stale)
	must.Equal(t, "the site's", []*hostapi.Vnode{listed[testNode+"[1]"]}, site)

	told := whole.vnodes(h, huge, testNode, "", nil, nil)
	told[testNode+"[0]"] = stale[testNode+"[0]"]
	again := toNote(told, testNode, stale, noted)
	must.Equal(t, "noted until MoM lists it with nothing", map[string]map[string]string{
		testNode + "[0]": noted[testNode+"[0]"]}, again)
	listed[testNode+"[0]"] = stale[testNode+"[0]"]
	if stale, _ := whole.othersVnodes(h.node, testNode, listed, again); stale != nil {
		t.Errorf("told once more: %v", stale)
	}
}
