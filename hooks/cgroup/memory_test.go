package main

import (
	"fmt"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// After a start with another [memory] enforce each job keeps what it was granted. A limit of all
// that jobs may have is not promised to any job. So other jobs begin as before, next to what the
// jobs requested.
func testBeginAfterAnotherEnforce(t *testing.T, n *node) {
	all := n.policy.memTotal(n.node())
	n.begin("1.srv", asks("ncpus=1", "mem=128mb"))
	for _, how := range []string{"cgroup", "rss", "both", "rss"} {
		n.startAndSettle(func(p *policy) { p.Memory.Enforce = how })
		n.begin("2.srv", asks("ncpus=1", "mem=64mb"))
		n.refuses(hostapi.EventBegin, "3.srv", hostapi.KindBusy, "exceeds mem available", "ncpus=0",
			fmt.Sprintf("mem=%db", all-192*mib+4096))
		n.begin("3.srv", asks("ncpus=0", fmt.Sprintf("mem=%db", all-192*mib)))
		for _, id := range []string{"2.srv", "3.srv"} {
			n.do(hostapi.EventEnd, id)
		}
	}
	// A job that requested nothing holds nothing, before and after.
	n.do(hostapi.EventEnd, "1.srv")
	n.begin("4.srv", asks("ncpus=0"))
	n.startAndSettle(func(p *policy) { p.Memory.Enforce = "cgroup" })
	n.begin("5.srv", asks("ncpus=0", fmt.Sprintf("mem=%db", all)))
}

func TestJobsHoldWhatTheyAskedForWhateverEnforces(t *testing.T) {
	edit := func(c *config.File) { c.Memory.Enforce, c.Memory.ReservePercent = "rss", 0 }
	onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) { testBeginAfterAnotherEnforce(t, n) })
	t.Run("kernel", func(t *testing.T) { testBeginAfterAnotherEnforce(t, realNode(t, edit)) })
}
