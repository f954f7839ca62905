package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// A job's cgroup that cannot be removed within kill_timeout holds cpus and memory that PBS is about
// to give to the next job. So all vnodes of the host go offline, with a comment that says why. They
// come back when everything is gone (openpbs pbs_cgroups.PY, take_node_offline and
// bring_node_online). A note in the state directory says that this hook did it, since hook, host
// and machine may be started again meanwhile.
//
// PBS's word on a vnode's state and comment comes with the event, in vnode_list. The list of
// pbs_mom says neither, and the caller has to add them from the server. A list without them gets
// the state without a comment, so that no comment is lost. Nothing comes back on line by it either:
// a state that is not seen to be this hook's is not undone.

const (
	// offlineComment is the text that vnodes get. PBS's own hook knows its vnodes by it, and so
	// does this one.
	offlineComment = pbs.CleanUpComment

	stateOffline = "offline"
	stateFree    = "free"
)

// cannotRemove reports whether an error of kill or remove says that something of a job is there to
// stay.
func cannotRemove(err error) bool {
	return errors.Is(err, cgroup.ErrNotEmpty) || errors.Is(err, cgroup.ErrBusy)
}

// stuck has PBS take the host's vnodes offline if err says that something of a job stays. An event
// without vnode_list (hookhost's own timer sends such ones) is answered in the same way, but is no
// word from PBS. The next event with a list is answered once more. After that the vnodes are the
// administrator's: if he puts them on line they stay there.
func (h *hook) stuck(req *hostapi.Request, out *hostapi.Outcome, err error) error {
	if out == nil || !cannotRemove(err) {
		return nil
	}
	h.offlining.Lock()
	defer h.offlining.Unlock()
	o, readErr := h.kept.Offline()
	if readErr != nil {
		h.log.Errorf("vnodes may have been offline before: %v", readErr)
	}
	if o == nil {
		o = &nodestate.Offline{Since: time.Now(), Before: offlineOf(req.VnodeList)}
		h.log.Error("the vnodes of this host go offline: a cgroup could not be removed")
	} else if o.Told {
		return nil
	}
	o.Told = len(req.VnodeList) > 0
	addVnodes(out, takenOffline(req.VnodeList, h.policy.ownVnodes(h.node(), req.Node, req.VnodeList)))
	return h.kept.SetOffline(o)
}

// repeat is stuck where the vnodes are to be offline already, and PBS may not know it yet.
func (h *hook) repeat(req *hostapi.Request, out *hostapi.Outcome, left error) error {
	if o, err := h.kept.Offline(); o == nil || err != nil {
		return err
	}
	return h.stuck(req, out, left)
}

// recovered has PBS put vnodes on line that this hook has put offline, when nothing is left and the
// least time is over.
func (h *hook) recovered(req *hostapi.Request, out *hostapi.Outcome, now time.Time) error {
	h.offlining.Lock()
	defer h.offlining.Unlock()
	o, err := h.kept.Offline()
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "vnodes may be offline: %w", err)
	}
	if o == nil {
		return nil
	}
	if o.Since.After(now) { // the clock was set back
		o.Since = now
		return h.kept.SetOffline(o)
	}
	if !o.Told { // PBS never heard of it
		return h.kept.SetOffline(nil)
	}
	if !anyVnode(req.VnodeList, tellsState) {
		return nil
	}
	if !h.policy.Vnodes.OnlineOfflinedNodes {
		if !anyVnode(req.VnodeList, ours) { // the administrator has done it
			return h.kept.SetOffline(nil)
		}
		return nil
	}
	if now.Sub(o.Since) < time.Duration(h.policy.Vnodes.OnlineMinDelay) {
		return nil
	}
	if back := backOnline(req.VnodeList, o.Before); len(back) > 0 {
		addVnodes(out, back)
		h.log.Info("the vnodes of this host go on line again: every cgroup is removed")
		if o.Damaged {
			h.log.Warn("the note that they are offline was damaged: some may have been offline before")
		}
	}
	return h.kept.SetOffline(nil)
}

// takenOffline is what PBS is to be told of the vnodes named, given what it knows.
func takenOffline(known map[string]*hostapi.Vnode, names []string) map[string]*hostapi.Vnode {
	all := map[string]*hostapi.Vnode{}
	for _, name := range names {
		v := &hostapi.Vnode{State: stateOffline}
		if now := known[name]; now != nil && tellsState(now) {
			v.State = withState(now.State, stateOffline)
			comment := ""
			if now.Comment != nil {
				comment = *now.Comment
			}
			if !strings.Contains(comment, offlineComment) {
				comment = appendComment(comment)
				v.Comment = &comment
			}
		}
		all[name] = v
	}
	return all
}

// backOnline is what PBS is to be told of the vnodes that have this hook's comment. before were
// offline without it.
func backOnline(known map[string]*hostapi.Vnode, before []string) map[string]*hostapi.Vnode {
	all := map[string]*hostapi.Vnode{}
	for name, now := range known {
		if !ours(now) {
			continue
		}
		comment := removeComment(*now.Comment)
		v := &hostapi.Vnode{Comment: &comment}
		if !slices.Contains(before, name) {
			v.State = withoutState(now.State, stateOffline)
		}
		all[name] = v
	}
	return all
}

// addVnodes adds to what an outcome says of vnodes.
func addVnodes(out *hostapi.Outcome, more map[string]*hostapi.Vnode) {
	if out.Vnodes == nil {
		out.Vnodes = map[string]*hostapi.Vnode{}
	}
	for name, v := range more {
		if there := out.Vnodes[name]; there != nil {
			there.State, there.Comment = v.State, v.Comment
			continue
		}
		out.Vnodes[name] = v
	}
}

// tellsState reports whether PBS's word on a vnode's state and comment is in v. If there is a
// state, no comment means that there is none: PBS leaves out what is not set.
func tellsState(v *hostapi.Vnode) bool { return v != nil && (v.State != "" || v.Comment != nil) }

// anyVnode reports whether one of the vnodes is as is says.
func anyVnode(known map[string]*hostapi.Vnode, is func(*hostapi.Vnode) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(known)), is)
}

// ours reports whether a vnode has this hook's comment.
func ours(v *hostapi.Vnode) bool {
	return v != nil && v.Comment != nil && strings.Contains(*v.Comment, offlineComment)
}

// offlineOf names the vnodes that are offline by somebody else's word.
func offlineOf(known map[string]*hostapi.Vnode) []string {
	var names []string
	for name, v := range known {
		if v != nil && slices.Contains(states(v.State), stateOffline) && !ours(v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// states splits a state as pbsnodes spells it: words with commas between them.
func states(text string) []string {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// withState adds a word to a state; free is the absence of any.
func withState(text, word string) string {
	words := slices.DeleteFunc(states(text), func(w string) bool { return w == stateFree || w == word })
	return strings.Join(append([]string{word}, words...), ",")
}

func withoutState(text, word string) string {
	words := slices.DeleteFunc(states(text), func(w string) bool { return w == word })
	if len(words) == 0 {
		return stateFree
	}
	return strings.Join(words, ",")
}

const commentSeparator = "; "

func appendComment(comment string) string {
	if comment == "" {
		return offlineComment
	}
	return comment + commentSeparator + offlineComment
}

// removeComment takes this hook's text out of a comment, with the separator that it came with and
// nothing else.
func removeComment(comment string) string {
	for {
		before, after, found := strings.Cut(comment, offlineComment)
		if !found {
			return comment
		}
		if rest, cut := strings.CutSuffix(before, commentSeparator); cut {
			before = rest
		} else if before == "" { // somebody wrote after it
			after = strings.TrimPrefix(after, commentSeparator)
		}
		comment = before + after
	}
}
