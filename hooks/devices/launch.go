package main

import (
	"context"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/inventory"
)

// ExecjobLaunch sets the variables that tell a program which devices it has. It restores the filter
// if somebody removed it. A job that began before devices were enabled is left alone.
func (h *hook) ExecjobLaunch(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, g, err := h.granted(req)
	if err != nil {
		return nil, err
	}
	if g == nil {
		return &hostapi.Outcome{}, nil
	}
	list, err := h.common()
	if err != nil {
		return nil, err
	}
	if g, err = h.confined(j, g, list); err != nil {
		return nil, err
	}
	if g == nil {
		return &hostapi.Outcome{}, nil
	}
	out := &hostapi.Outcome{SetEnv: h.environment(j.ID(), g)}
	if vendors(h.keeper.current())["tpu"] > 0 {
		for _, name := range tpuVariables { // qsub -V may have copied them from a job with other chips
			_, set := out.SetEnv[name]
			if _, passed := req.Env[name]; passed && !set {
				out.UnsetEnv = append(out.UnsetEnv, name)
			}
		}
	}
	return out, nil
}

// environment returns the variables for a job's programs, which follow from the grant.
// execjob_launch sets them for programs that MoM starts. execjob_begin and execjob_resize return
// them for attached processes.
func (h *hook) environment(id string, g *inventory.Grant) map[string]string {
	env := variables(g, vendors(h.keeper.current()))
	if h.cdi.dir != "" && len(g.Devices) > 0 {
		env[cdiVariable] = cdiDevice(id)
	}
	return env
}
