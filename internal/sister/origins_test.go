package sister

import (
	"net/netip"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// No host is asked about a connection from another one's address: it would answer for its users.
func TestOriginIsAskedOfTheHostThatHasTheAddress(t *testing.T) {
	at := func(list ...string) (a addresses) {
		for _, text := range list {
			a.list = append(a.list, netip.MustParseAddr(text))
		}
		a.at = time.Now()
		return a
	}
	o := &Origins{Node: "n1", IsOwn: func(addr string) bool { return addr == "127.0.0.1" },
		addresses: map[string]addresses{
			"n1": at("10.0.0.1"), "n2": at("10.0.0.2", "fe80::2"), "n3": at("10.0.0.3"), // which is not the job's
		}}
	job := &hostapi.Job{ID: "7.srv", ExecVnode: "(n1:ncpus=1)+(n2:ncpus=1)"}
	for addr, want := range map[string]string{
		"10.0.0.1": "n1", "10.0.0.2": "n2", "::ffff:10.0.0.2": "n2", "fe80::2%eth0": "n2", "127.0.0.1": "n1",
		"10.0.0.3": "", "10.0.0.4": "",
	} {
		if got, err := o.hostAt(t.Context(), netip.MustParseAddr(addr), job); got != want || err != nil {
			t.Errorf("%s: %q is asked, %v; want %q", addr, got, err, want)
		}
	}
}
