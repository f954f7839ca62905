package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// Without hook cgroup, jobs have no cgroups. Their directories stay as long as they live all the
// same. A list of the host may be older than a job, and another job of its user may end.
func TestJobsLiveWithoutCgroups(t *testing.T) {
	n := newNode(t, tmpSettings, runtimeSettings)
	uid := newOwner()
	first, second := jobOf("7.srv", uid), jobOf("8.srv", uid)
	n.call(hostapi.EventBegin, first)
	n.hostCall(hostapi.EventPeriodic)
	must.Equal(t, "TMPDIRs after a list that is older than the job", []string{"7.srv"}, n.tmpDirs())
	must.Equal(t, "XDG_RUNTIME_DIRs", 1, len(n.runtimeDirs()))
	n.call(hostapi.EventBegin, second)
	n.call(hostapi.EventEnd, first)
	must.Equal(t, "TMPDIRs after the first job", []string{"8.srv"}, n.tmpDirs())
	must.Equal(t, "XDG_RUNTIME_DIRs", 1, len(n.runtimeDirs()))
	n.start(tmpSettings, runtimeSettings)
	n.hostCall(hostapi.EventStartup, second)
	must.Equal(t, "TMPDIRs after a restart", []string{"8.srv"}, n.tmpDirs())
	n.hostCall(hostapi.EventPeriodic) // its end was lost
	must.Equal(t, "what is left", none, append(n.tmpDirs(), n.runtimeDirs()...))
}
