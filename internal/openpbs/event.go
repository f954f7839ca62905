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

// Event is one event of pbs_mom, read from its input file.
type Event struct {
	Request *hostapi.Request // PID is set for attach only; for launch its caller knows it
	Hook    string           // the name of our hook in PBS: pbs.event().hook_name
	Alarm   time.Duration    // when MoM kills the hook, counted from its start; 0 if the event does not say
	Unasked []string         // of Resource_List: schedselect does not request these, so hooks do not get them

	// Launch only, exactly from MoM: bytes that are not UTF-8 are kept, and argv includes the
	// program's name.
	progname string
	argv     []string
	env      []variable
}

// Name is the event's name in messages.
func (e *Event) Name() string {
	if e.Request.Job == nil {
		return string(e.Request.Event)
	}
	return fmt.Sprintf("%s of job %s", e.Request.Event, e.Request.Job.ID)
}

// Refusable reports whether MoM accepts a reject of the event (hostapi.Event.Refusable).
func (e *Event) Refusable() bool { return e.Request.Event.Refusable() }

// Owed reports whether the event says what has happened to a job. Such an event is carried out
// however late it is read, because MoM sends it only once. For the others MoM needs the answer, and
// has continued without it.
func (e *Event) Owed() bool { return e.Request.Event.ForJob() && !e.Refusable() }

// Becomes says what happens to an event whose caller no longer waits (host.HandlePBS).
func (e *Event) Becomes() string {
	switch {
	case e.Refusable() && e.Request.Event.Undo() != "":
		return "it is undone"
	case e.Refusable():
		return "it is rejected, though it may go on here"
	}
	return "it goes on"
}

// maxInput bounds an event in any form, in bytes. It is many times the size of a job's environment.
const maxInput = 8 << 20

// isInput reports, from the first bytes, whether b is an input file of MoM (Decode) and not JSON.
func isInput(b []byte) bool { return bytes.HasPrefix(b, []byte("pbs.")) }

// vnodesHere returns those of a job's vnode_list that belong to this host. They are named after it,
// or the job has them here. MoM also lists the job's vnodes on other hosts
// (src/resmom/mom_hook_func.c, vnl_add_vnode_entries).
func vnodesHere(list map[string]*hostapi.Vnode, req *hostapi.Request) map[string]*hostapi.Vnode {
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

// vnodeNames returns the names of this host's vnodes in the event, and of the natural vnode.
func (e *Event) vnodeNames() []string {
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

// valid returns text as hooks get it: JSON holds only UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
