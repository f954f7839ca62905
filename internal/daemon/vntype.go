package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/settings"
)

// learnVntype finds the vntype before an event about the node is carried out, because conditions of
// the configuration may depend on it. If the vntype has changed, they are evaluated again, and the
// hooks get the result.
//
// The file takes precedence, and the event's vnode_list is then changed to match. A vntype in MoM's
// vnode_list may be hookhost's own answer to the last exechost_startup, so it is written only if
// there is no file. Only the daemon writes: events about the node come from pbs_mom, that is, from
// root (see api.Listen).
func (c *configuration) learnVntype(ctx context.Context, req *hostapi.Request) error {
	if req.Event.ForJob() {
		return nil
	}
	c.learning.Lock()
	defer c.learning.Unlock()
	v, err := settings.ReadVntype(&c.file.Load().OpenPBS)
	if err != nil {
		return err
	}
	natural := cmp.Or(req.Node, c.node)
	told := ""
	if vnode := req.VnodeList[natural]; vnode != nil {
		told = vnode.ResourcesAvailable["vntype"]
	}
	if told != "" && !v.There {
		if v.File == "" {
			return fmt.Errorf("keep vntype %s: %w", told, config.ErrNoMoM)
		}
		if err := v.Write(told); err != nil {
			return fmt.Errorf("keep vntype: %w", err)
		}
	}
	if v.There && told != v.Name {
		setVntype(req, natural, v.Name)
	}
	if v.Name == c.file.Load().Here().Vntype {
		return nil
	}
	c.log.WithField("vntype", v.Name).Infof("the vntype of this node: %s", v)
	if err := c.resolve(ctx); err != nil {
		return fmt.Errorf("resolve configuration for vntype %s: %w", v.Name, err)
	}
	return nil
}

// setVntype sets the natural vnode's vntype in the event's vnode_list, or removes it for "".
func setVntype(req *hostapi.Request, natural, name string) {
	var vnode hostapi.Vnode
	if known := req.VnodeList[natural]; known != nil {
		vnode = *known
	}
	vnode.ResourcesAvailable = maps.Clone(vnode.ResourcesAvailable)
	delete(vnode.ResourcesAvailable, "vntype")
	if name != "" {
		if vnode.ResourcesAvailable == nil {
			vnode.ResourcesAvailable = hostapi.Resources{}
		}
		vnode.ResourcesAvailable["vntype"] = name
	}
	req.VnodeList = maps.Clone(req.VnodeList)
	if req.VnodeList == nil {
		req.VnodeList = map[string]*hostapi.Vnode{}
	}
	req.VnodeList[natural] = &vnode
}
