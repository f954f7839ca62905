package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
)

// hook handles the events. What it knows about a job is in the job's state.
type hook struct {
	policy  config.Container
	binds   []config.Bind
	aux     string // the directory of hookhost's files for jobs
	checker *checker
	log     *logrus.Entry
}

// newHook creates the hook.
func newHook(s *hostapi.Setup) (any, error) {
	cfg, err := config.FromJSON(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	h := &hook{policy: cfg.Container, aux: s.Host["aux_dir"], log: s.Log,
		checker: &checker{limit: checkLimit, pause: checkPause}}
	for _, text := range h.policy.Binds {
		b, err := config.ParseBind(text)
		if err != nil {
			return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
		}
		h.binds = append(h.binds, b)
	}
	return h, nil
}

// ExechostStartup reports the engine to PBS, so that jobs can request nodes that have it. On a node
// without it the value is empty.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	engine := h.policy.Engine
	program, err := h.policy.EngineProgram()
	if err == nil {
		_, err = h.checker.check(ctx, hostapi.Owner{User: "root"}, program, "")
	}
	if err != nil {
		h.log.Errorf("jobs cannot run in images: %v", err)
		engine = ""
	}
	v := &hostapi.Vnode{ResourcesAvailable: hostapi.Resources{config.ContainerEngineResource: engine}}
	vnodes := map[string]*hostapi.Vnode{req.Node: v}
	for name := range req.VnodeList {
		if strings.HasPrefix(name, req.Node+"[") { // of a NUMA node
			vnodes[name] = v
		}
	}
	return &hostapi.Outcome{Vnodes: vnodes}, nil
}

// begun is the state of a job that runs in an image.
type begun struct {
	Image string `json:"image"`
	// MoMHome is Request.MoMHome, which only a begin has.
	MoMHome string `json:"mom_home,omitempty"`
}

// ExecjobBegin rejects a job whose image its owner cannot read, or that the engine cannot run. In
// the first case PBS holds the job: a file system that is missing here would cost a queue its jobs.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	text, wants := req.Job.ResourceList[config.ContainerResource]
	if !wants {
		return &hostapi.Outcome{}, nil
	}
	b, err := h.begin(ctx, req, text)
	if _, is := errors.AsType[errImage](err); is {
		return &hostapi.Outcome{Reject: true, OnReject: hostapi.JobActionHold, Message: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	state, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return &hostapi.Outcome{State: state, Notes: []string{fmt.Sprintf("image %s by %s", hostapi.Printable(text),
		h.policy.Engine)}}, nil
}

// begin checks the image that a job names. Its errors name the image.
func (h *hook) begin(ctx context.Context, req *hostapi.Request, text string) (*begun, error) {
	c := h.policy
	program, err := c.EngineProgram()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "container engine %s: %w", c.Engine, err)
	}
	named := func(kind hostapi.Kind, err error) error {
		return hostapi.Errorf(kind, "image %.200q: %w", text, err)
	}
	i, err := parseImage(text)
	if errors.Is(err, errCredentials) {
		return nil, hostapi.Errorf(hostapi.KindJob, "image: %w", err)
	}
	if err != nil {
		return nil, named(hostapi.KindJob, err)
	}
	directory, err := h.checker.check(ctx, req.Job.Owner, program, i.path())
	if err != nil {
		return nil, named(hostapi.KindOf(err), err)
	}
	if err := accepts(c.Engine, i, directory); err != nil {
		return nil, named(hostapi.KindJob, err)
	}
	return &begun{Image: text, MoMHome: req.MoMHome}, nil
}

// ExecjobLaunch replaces the program by the engine's, with the image that the job began with.
func (h *hook) ExecjobLaunch(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	text, wants := req.Job.ResourceList[config.ContainerResource]
	b := &begun{}
	if len(req.Job.State) > 0 {
		if err := json.Unmarshal(req.Job.State, b); err != nil {
			return nil, err
		}
	} else if wants { // it began before [container] was enabled
		var err error
		if b, err = h.begin(ctx, req, text); err != nil {
			return nil, err
		}
	} else {
		return &hostapi.Outcome{}, nil
	}
	i, err := parseImage(b.Image)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "image %.200q: %w", b.Image, err)
	}
	program, err := h.policy.EngineProgram()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	env := map[string]string{}
	maps.Copy(env, req.Env)
	if env["USER"] == "" { // tasks of pbs_mom have none, and charliecloud needs it
		env["USER"] = req.Job.Owner.User
	}
	binds, err := expand(slices.Concat(h.binds, h.files(b, req.Job.ID, env)), env)
	if err != nil {
		return nil, err
	}
	c, err := engines[h.policy.Engine].command(&launch{image: i, program: req.Progname, args: req.Argv,
		env: env, binds: binds, options: h.policy.Options})
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	args := c.args
	if len(c.env) > 0 {
		args, program = slices.Concat(c.env, []string{program}, args), "/usr/bin/env"
	}
	return &hostapi.Outcome{Progname: &program, Argv: args, SetEnv: map[string]string{"USER": env["USER"]}}, nil
}

// files returns binds of the directories with the files that MoM and hookhost pass to a job's
// programs. The shell reads the name of the job's script from standard input; the names of its node
// file and host file are in the environment. MoM writes the script after execjob_begin.
func (h *hook) files(b *begun, id string, env map[string]string) (list []config.Bind) {
	dirs := []string{h.aux}
	if filepath.IsAbs(b.MoMHome) {
		dirs = append(dirs, filepath.Join(b.MoMHome, "aux"))
		jobs := filepath.Join(b.MoMHome, "mom_priv", "jobs")
		if _, err := os.Stat(filepath.Join(jobs, id+".SC")); err == nil {
			list = append(list, config.Bind{Source: jobs, Target: jobs, ReadOnly: true})
		}
	}
	for _, dir := range dirs {
		named := func(value string) bool { return dir != "" && strings.HasPrefix(value, dir+"/") }
		if slices.ContainsFunc(slices.Collect(maps.Values(env)), named) {
			list = append(list, config.Bind{Source: dir, Target: dir, ReadOnly: true})
		}
	}
	return list
}
