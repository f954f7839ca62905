package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// fromPBS is what the daemon knows of the configuration that PBS sends.
type fromPBS struct {
	dir      atomic.Pointer[string] // MoM's hooks, as the configuration has it
	seen     atomic.Pointer[fileID] // that was read last
	refused  atomic.Value           // string: why what was read last is not in force, "" where it is
	comments atomic.Bool            // vnodes.comment_config_refused
}

// swapWithin bounds how long an event waits for hooks' programs of before to end their calls.
const swapWithin = time.Second

// note remembers what became of a configuration that was read; err is why it could not be put in
// force. A copy of PBS's is kept once it is in force, in case PBS then sends one that does not
// hold.
func (b *backend) note(s settings, err error) error {
	if err != nil {
		b.pbs.refused.Store(err.Error())
		return err
	}
	b.pbs.dir.Store(&s.pbs.dir)
	b.pbs.seen.Store(&s.pbs.id)
	if s.refused != nil {
		b.log.Errorf("what PBS has sent is refused, the one before stays in force: %v", s.refused)
		b.pbs.refused.Store(s.refused.Error())
		return nil
	}
	b.pbs.refused.Store("")
	if !s.pbs.there {
		return nil
	}
	if err := nodestate.Dir(b.cli.state).SetConfiguration(s.sent); err != nil {
		b.log.Errorf("keep the configuration of PBS's: %v", err)
	}
	return nil
}

// hooksOf returns the folder of the hooks of the MoM with that home, as the configuration names it.
// Another MoM's is "": its word does not count here.
func (b *backend) hooksOf(home string) string {
	dir := b.pbs.dir.Load()
	if dir == nil || home == "" {
		return ""
	}
	at := string(openpbs.HooksOf(home))
	if *dir == "" && home == b.configuredHome() { // PBS came to this host after the daemon
		return at
	}
	if own, err := filepath.EvalSymlinks(*dir); *dir == at || err == nil && own == at {
		return *dir
	}
	return ""
}

// receive puts the configuration in force that PBS has sent since the last event, if any. Each
// event asks the file system once, so nothing has to be watched. The next job has what its
// administrator sees on the node. home is that of the MoM that sends the event.
func (b *backend) receive(ctx context.Context, home, hook string) {
	dir := b.hooksOf(home)
	if dir == "" || filepath.Base(hook) != hook {
		return
	}
	id, seen := identify(filepath.Join(dir, hook+".CF")), b.pbs.seen.Load()
	if id.inode == seen.inode && id.size == seen.size && id.changed == seen.changed {
		return
	}
	if id != (fileID{}) && id.size == 0 { // MoM has opened it and not written it yet
		return
	}
	if !b.pbs.seen.CompareAndSwap(seen, &id) {
		return // another event is at it
	}
	ctx, cancel := context.WithTimeout(ctx, swapWithin)
	defer cancel()
	if err := b.Reload(ctx); err != nil {
		b.log.Errorf("take over what PBS has sent: %v", err)
		return
	}
	b.log.WithField("hook", hook).Info("PBS has sent a configuration: reloaded")
}

// remark is what the comment of this host's vnode is to have of hookhost's.
func (b *backend) remark() string {
	refused, _ := b.pbs.refused.Load().(string)
	if refused == "" || !b.pbs.comments.Load() {
		return ""
	}
	const most = 300 // bytes, of a line that people read in pbsnodes
	text := strings.ToValidUTF8("hookhost: "+refused, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// mustRemark tells whether the comment is not known to be as remark has it.
func (b *backend) mustRemark() bool {
	had, err := nodestate.Dir(b.cli.state).Remark()
	return err == nil && had != b.remark()
}

// commentVnode puts what hookhost has to say of the configuration into the comment of this host's
// vnode, and takes back what it said before. All else in the comment stays. An event that does not
// tell the comment changes nothing, nor does one where a hook has something to say in it. The next
// event of the host will do. A text that was taken back is forgotten once the server shows that it
// is gone.
func (b *backend) commentVnode(req *hostapi.Request, out *hostapi.Outcome) error {
	if req.Event.ForJob() || !b.mustRemark() {
		return nil
	}
	v := req.VnodeList[req.Node]
	if v == nil || v.State == "" && v.Comment == nil || out.Vnodes[req.Node] != nil && out.Vnodes[req.Node].Comment != nil {
		return nil
	}
	before := ""
	if v.Comment != nil {
		before = *v.Comment
	}
	state, now := nodestate.Dir(b.cli.state), b.remark()
	had, err := state.Remark()
	if err != nil {
		return err
	}
	if had != "" { // first that goes
		now = ""
	}
	after := withRemark(withoutRemark(before, had), now)
	if now != "" || after == before {
		if err := state.SetRemark(now); err != nil {
			return err
		}
	}
	if after == before {
		return nil
	}
	if out.Vnodes == nil {
		out.Vnodes = map[string]*hostapi.Vnode{}
	}
	if out.Vnodes[req.Node] == nil {
		out.Vnodes[req.Node] = &hostapi.Vnode{}
	}
	out.Vnodes[req.Node].Comment = &after
	return nil
}

const remarkSeparator = "; "

func withRemark(comment, remark string) string {
	if comment == "" || remark == "" {
		return comment + remark
	}
	return comment + remarkSeparator + remark
}

// withoutRemark takes a remark out of a comment, with the separator that it came with.
func withoutRemark(comment, remark string) string {
	before, after, found := strings.Cut(comment, remark)
	if remark == "" || !found {
		return comment
	}
	if rest, cut := strings.CutSuffix(before, remarkSeparator); cut {
		before = rest
	} else if before == "" { // somebody wrote after it
		after = strings.TrimPrefix(after, remarkSeparator)
	}
	return before + after
}
