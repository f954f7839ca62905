package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// vntype is resources_available.vntype of this host's natural vnode, and the file that has it.
type vntype struct {
	name  string           // "" where none is known
	file  nodestate.Vntype // "" where pbs_mom has no home here
	there bool             // the file is
	shut  bool             // others than root may not read it
}

// readVntype reads the vntype. A file that is not there, or that this user may not read, is no
// error.
func readVntype(cfg *config.OpenPBS) (vntype, error) {
	home, err := cfg.MoMHome()
	if errors.Is(err, config.ErrNoMoM) {
		return vntype{}, nil
	}
	if err != nil {
		return vntype{}, fmt.Errorf("vntype: %w", err)
	}
	v := vntype{file: nodestate.VntypeOf(home)}
	v.name, err = v.file.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nil
	case errors.Is(err, fs.ErrPermission):
		v.shut = true
		return v, nil
	}
	v.there = err == nil
	return v, err
}

// String says what the vntype is and where it is from.
func (v vntype) String() string {
	switch {
	case v.name != "":
		return fmt.Sprintf("%s, from %s", v.name, v.file)
	case v.file == "":
		return "none: " + config.ErrNoMoM.Error()
	case v.shut:
		return fmt.Sprintf("not known: only root may read %s", v.file)
	case v.there:
		return fmt.Sprintf("none: %s is empty", v.file)
	}
	return fmt.Sprintf("none: there is no %s", v.file)
}

// learn finds the vntype before an event about the node is carried out. The configuration's
// conditions may depend on it: where it is another one they are resolved again, and the hooks told.
//
// The file counts, and the event's vnode_list says afterwards what the file says. A vntype in MoM's
// vnode_list may be what hookhost itself told at the last exechost_startup, so it is only written
// where there is no file. Only the daemon writes: events about the node come from pbs_mom, that is
// root (see api.Listen).
func (b *backend) learn(ctx context.Context, req *hostapi.Request) error {
	if req.Event.ForJob() {
		return nil
	}
	b.learning.Lock()
	defer b.learning.Unlock()
	v, err := readVntype(b.openPBS.Load())
	if err != nil {
		return err
	}
	natural := cmp.Or(req.Node, b.node)
	told := ""
	if vnode := req.VnodeList[natural]; vnode != nil {
		told = vnode.ResourcesAvailable["vntype"]
	}
	if told != "" && !v.there {
		if v.file == "" {
			return fmt.Errorf("keep vntype %s: %w", told, config.ErrNoMoM)
		}
		if err := v.file.Write(told); err != nil {
			return fmt.Errorf("keep vntype: %w", err)
		}
		v.name, v.there = told, true
	}
	if v.there && told != v.name {
		setVntype(req, natural, v.name)
	}
	if v.name == b.vntypeInForce() {
		return nil
	}
	b.log.WithField("vntype", v.name).Infof("the vntype of this node: %s", v)
	if err := b.resolve(ctx); err != nil {
		return fmt.Errorf("resolve configuration for vntype %s: %w", v.name, err)
	}
	return nil
}

// vntypeInForce is the one that the configuration in force was resolved for.
func (b *backend) vntypeInForce() string {
	b.reloaded.Lock()
	defer b.reloaded.Unlock()
	return b.cfg.Here().Vntype
}

// setVntype has the event's vnode_list say the natural vnode's vntype, or none.
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

// advice says how the node gets a vntype; "" where that cannot be said.
func (v vntype) advice() string {
	if v.file == "" || v.shut {
		return ""
	}
	return fmt.Sprintf("echo NAME >%s, then SIGHUP to pbs_mom; one that qmgr has set is known to the server alone", v.file)
}
