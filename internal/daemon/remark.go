package daemon

import (
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// remark returns hookhost's part of the comment of this host's vnode: why the configuration that
// PBS has sent is not in force. It returns "" if there is nothing to say.
func (c *configuration) remark() string {
	c.sent.mu.Lock()
	refused := c.sent.refused
	c.sent.mu.Unlock()
	if refused == "" || !c.file.Load().Vnodes.CommentConfigRefused {
		return ""
	}
	const most = 300 // bytes, of a line that people read in pbsnodes
	text := strings.ToValidUTF8("hookhost: "+refused, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// mustRemark reports whether the comment may lack the current remark.
func (c *configuration) mustRemark() bool {
	had, err := nodestate.Dir(c.paths.State).Remark()
	return err == nil && had != c.remark()
}

// commentVnode puts the remark into the comment of this host's vnode, and removes the previous one.
// The rest of the comment stays. An event without the comment changes nothing. An event in which a
// hook sets comment or state is skipped; the next host event carries the remark. A removed remark
// is forgotten once the server shows that it is gone.
func (c *configuration) commentVnode(req *hostapi.Request, out *hostapi.Outcome) error {
	if req.Event.ForJob() || !c.mustRemark() {
		return nil
	}
	v := req.VnodeList[req.Node]
	if v == nil || v.State == "" && v.Comment == nil {
		return nil
	}
	if set := out.Vnodes[req.Node]; set != nil && (set.Comment != nil || set.State != "") {
		return nil
	}
	before := ""
	if v.Comment != nil {
		before = *v.Comment
	}
	state, now := nodestate.Dir(c.paths.State), c.remark()
	had, err := state.Remark()
	if err != nil {
		return err
	}
	if had != "" { // remove that first
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

// withoutRemark removes a remark and its separator from a comment.
func withoutRemark(comment, remark string) string {
	before, after, found := strings.Cut(comment, remark)
	if remark == "" || !found {
		return comment
	}
	if rest, cut := strings.CutSuffix(before, remarkSeparator); cut {
		before = rest
	} else if before == "" { // a person wrote after it
		after = strings.TrimPrefix(after, remarkSeparator)
	}
	return before + after
}
