package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// newTestHook creates a hook whose engine is charliecloud, with a program that exists everywhere.
func newTestHook(t *testing.T, aux string) *hook {
	t.Helper()
	kernfstest.NeedRoot(t)
	p := config.Container{Engine: config.Charliecloud, Program: "/bin/sh"}
	return &hook{policy: p, aux: aux, checker: &checker{limit: time.Minute},
		log: logrus.NewEntry(logrus.New())}
}

func TestEngineIsReportedToPBS(t *testing.T) {
	h := newTestHook(t, "")
	req := &hostapi.Request{Event: hostapi.EventStartup, Node: "n",
		VnodeList: map[string]*hostapi.Vnode{"n": {}, "n[0]": {}, "n[1]": {}, "site": {}}}
	for program, want := range map[string]string{"/bin/sh": "charliecloud", "/bin/none": ""} {
		h.policy.Program = program
		out, err := h.ExechostStartup(context.Background(), req)
		must.NoError(t, err)
		var names []string
		for name, v := range out.Vnodes {
			names = append(names, name)
			if got := v.ResourcesAvailable["container_engine"]; got != want {
				t.Errorf("%s with %s: %q, want %q", name, program, got, want)
			}
		}
		slices.Sort(names)
		must.Equal(t, "vnodes", []string{"n", "n[0]", "n[1]"}, names)
	}
}

// The directories of a job's script, node file and host file are mounted if the job has such files.
// The image is that of the begin, whatever qalter says later.
func TestLaunchMountsTheFilesOfMoM(t *testing.T) {
	home := t.TempDir()
	jobs, aux := filepath.Join(home, "mom_priv/jobs"), filepath.Join(home, "aux")
	own := filepath.Join(home, "hookhost")
	must.NoError(t, os.MkdirAll(jobs, 0o755), os.WriteFile(filepath.Join(jobs, "12[1].x.SC"), nil, 0o700))
	h := newTestHook(t, own)
	job := &hostapi.Job{ID: "12[1].x", Owner: hostapi.Owner{User: "root"},
		ResourceList: hostapi.Resources{"container": "/"}}
	_, err := h.ExecjobBegin(context.Background(), &hostapi.Request{Job: job})
	if hostapi.KindOf(err) != hostapi.KindJob {
		t.Errorf("the root directory as an image: %v", err)
	}
	job.ResourceList["container"] = "/usr"
	out, err := h.ExecjobBegin(context.Background(), &hostapi.Request{Job: job, MoMHome: home})
	must.NoError(t, err)
	job.State, job.ResourceList["container"] = out.State, "/etc"
	for _, tt := range []struct{ id, nodefile, hostfile, want string }{
		{"12[1].x", aux + "/12[1].x", own + "/12[1].x", "--bind=" + jobs + ":" + jobs + " --bind=" + own + ":" + own +
			" --bind=" + aux + ":" + aux + " /usr -- /bin/true"},
		{"12[2].x", aux + "/12[2].x", "/etc/hosts", "--bind=" + aux + ":" + aux + " /usr -- /bin/true"},
		{"12[2].x", "", aux + "2/x", "/usr -- /bin/true"},
	} {
		job.ID = tt.id
		out, err := h.ExecjobLaunch(context.Background(), &hostapi.Request{Job: job, Progname: "/bin/true",
			Env: map[string]string{"PBS_NODEFILE": tt.nodefile, "OMPI_MCA_orte_default_hostfile": tt.hostfile}})
		must.NoError(t, err)
		got := strings.Join(out.Argv, " ")
		if got != tt.want || *out.Progname != "/bin/sh" || out.SetEnv["USER"] != "root" {
			t.Errorf("%s: %s %s %v, want %s", tt.id, *out.Progname, got, out.SetEnv, tt.want)
		}
	}
}

func TestJobWithoutAnImageIsLeftAlone(t *testing.T) {
	h := newTestHook(t, "")
	req := &hostapi.Request{Job: &hostapi.Job{ID: "1.x"}, Progname: "/bin/true"}
	type event func(context.Context, *hostapi.Request) (*hostapi.Outcome, error)
	for _, call := range []event{h.ExecjobBegin, h.ExecjobLaunch} {
		out, err := call(context.Background(), req)
		if err != nil || out.Progname != nil || out.Argv != nil || out.State != nil || out.Notes != nil {
			t.Errorf("%+v, %v", out, err)
		}
	}
}
