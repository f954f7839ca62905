package openpbs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Event is one event of pbs_mom as its input file tells it.
type Event struct {
	Request *hostapi.Request // PID is set for attach only; for launch its caller knows it
	Hook    string           // the name by which our hook is registered: pbs.event().hook_name
	Alarm   time.Duration    // when MoM kills the hook, counted from its start; 0 when the event does not say
	Unasked []string         // of Resource_List: schedselect does not ask for these, and hooks are not told

	// Launch only, as MoM said it: bytes that are no UTF-8 are still there, and argv has the
	// program's name.
	progname string
	argv     []string
	env      []variable
}

// Name is the event in messages.
func (e *Event) Name() string {
	if e.Request.Job == nil {
		return string(e.Request.Event)
	}
	return fmt.Sprintf("%s of job %s", e.Request.Event, e.Request.Job.ID)
}

// Refusable reports whether MoM takes no for an answer, so that an event that could not be carried
// out is rejected. A rejected execjob_preterm would keep a job alive.
func (e *Event) Refusable() bool {
	return e.Request.Event.StopsAtReject() && e.Request.Event != hostapi.EventPreterm
}

// Owed reports whether the event says what has become of a job. The event is carried out however
// late it is read: MoM sends it once. MoM wants the answer of the others, and has gone on without.
func (e *Event) Owed() bool { return e.Request.Event.ForJob() && !e.Refusable() }

// Becomes says what becomes of an event whose answer nobody waits for any more (host.JudgePBS).
func (e *Event) Becomes() string {
	switch event := e.Request.Event; {
	case event == hostapi.EventBegin || event == hostapi.EventPreresume:
		return "it is undone"
	case e.Refusable():
		return "it is rejected, though it may go on here"
	}
	return "it goes on"
}

// MaxInput bounds an event in any form, in bytes. A job's whole environment fits in it many times.
const MaxInput = 8 << 20

// IsInput tells by its first bytes whether b is an input file of MoM (Decode), and not JSON.
func IsInput(b []byte) bool { return bytes.HasPrefix(b, []byte("pbs.")) }

// setsUp reports whether a reject of the event costs no more than a start, an attach or a resize.
// Such an event is refused when its text contradicts itself. An event that ends a job or looks at
// the host is carried out with what is certain.
func setsUp(e hostapi.Event) bool {
	switch e {
	case hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventLaunch, hostapi.EventAttach, hostapi.EventResize,
		hostapi.EventPreresume:
		return true
	}
	return false
}

// ownVnodes are those of a job's vnode_list that this host has: those that are named after it, and
// those that the job has here. MoM lists what the job has on other hosts, too
// (src/resmom/mom_hook_func.c, vnl_add_vnode_entries).
func ownVnodes(list map[string]*hostapi.Vnode, req *hostapi.Request) map[string]*hostapi.Vnode {
	var here []pbs.VnodeChunk
	if chunks, err := pbs.JobChunks(req.Job.ExecVnode, req.Job.ExecHost2); err == nil {
		here = pbs.Pick(chunks, pbs.ChunksHere(chunks, req.Node, req.Job.MotherSuperior))
	}
	maps.DeleteFunc(list, func(name string, _ *hostapi.Vnode) bool {
		host, _, _ := strings.Cut(name, "[")
		return !strings.EqualFold(host, req.Node) &&
			!slices.ContainsFunc(here, func(c pbs.VnodeChunk) bool { return strings.EqualFold(c.Vnode, name) })
	})
	return list
}

// ownVnodes names this host's vnodes that the event has, and the natural vnode.
func (e *Event) ownVnodes() []string {
	node := e.Request.Node
	if node == "" {
		return nil
	}
	names := []string{node}
	for name := range e.Request.VnodeList {
		if !strings.EqualFold(name, node) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// valid is text as hooks get it: JSON carries UTF-8 only.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
