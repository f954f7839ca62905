package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// A listed head walks a job through its events on the real daemon, and nobody else does anything
// to the job. The head does nothing to a job that pbs_mom has begun.
func TestListedHeadAloneWalksAJobThroughItsEvents(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	addr := free.Addr().String()
	free.Close()
	ca := filepath.Join(t.TempDir(), "ca")
	n := newNode(t, "[host]\nnode = \"n2\"", "[sister]",
		fmt.Sprintf("listen = %q\nca = %q\ncert = %q\nkey = %q\nheads = [\"n1\"]", addr, ca+"/ca.crt", ca+"/n2.crt", ca+
			"/n2.key"))
	if r := n.hookhost("cert", "--dir", ca, "n1", "n2", "n3"); r.status != 0 {
		t.Fatalf("cert: %+v", r)
	}
	d := n.serve()
	as := func(host, dir string) *api.Client {
		id, err := api.LoadIdentity(api.TLSFiles{CA: ca + "/ca.crt", Cert: filepath.Join(dir, host+".crt"),
			Key: filepath.Join(dir, host+".key")})
		must.NoError(t, err)
		c := api.DialTLS(addr, "n2", id, time.Minute)
		t.Cleanup(func() { c.Close() })
		return c
	}
	n1, n3 := as("n1", ca), as("n3", ca)
	const job, run, other = "12.srv", "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	send := func(c *api.Client, e hostapi.Event, id, run string) error {
		req := &hostapi.Request{Event: e, Run: run,
			Job: &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "nobody", UID: ownerUID, GID: -1},
				ExecVnode:    "(n1:ncpus=1:mem=65536kb)+(n2:ncpus=1:mem=65536kb)",
				ResourceList: hostapi.Resources{"ncpus": "2", "mem": "131072kb"}}}
		out, err := c.Handle(t.Context(), req)
		if err == nil && out.Reject {
			err = errors.New(out.Message)
		}
		return err
	}
	lives := func(id string) (api.Job, bool) {
		var list struct{ Jobs []api.Job }
		r := n.hookhost("jobs", "--json")
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		for _, j := range list.Jobs {
			if j.Job.ID == id {
				return j, true
			}
		}
		return api.Job{}, false
	}

	if err := send(n3, hostapi.EventBegin, job, run); err == nil || !strings.Contains(err.Error(), "sister.heads") {
		t.Errorf("begin by n3: %v", err)
	}
	must.NoError(t, send(n1, hostapi.EventBegin, job, run))
	if j, ok := lives(job); !ok || j.Head != "n1" || j.Run != run || j.Job.MotherSuperior {
		t.Errorf("job %+v", j)
	}
	if r := n.event("execjob_begin", "13.srv", ""); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	// Accepted, and nothing done.
	for _, err := range []error{send(n3, hostapi.EventEnd, job, run), send(n1, hostapi.EventEnd, job, other),
		send(n1, hostapi.EventAbort, "13.srv", run)} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{job, "13.srv"} {
		if _, ok := lives(id); !ok {
			t.Errorf("job %s is gone", id)
		}
	}
	if _, err := n1.Job(t.Context(), job); err != nil {
		t.Errorf("its head asks for it: %v", err)
	}
	for c, id := range map[*api.Client]string{n3: job, n1: "13.srv"} {
		if _, err := c.Job(t.Context(), id); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("a host that is not of job %s: %v", id, err)
		}
	}
	// Somebody without a certificate of the CA.
	if r := n.hookhost("cert", "--dir", ca+"2", "n1"); r.status != 0 {
		t.Fatalf("cert: %+v", r)
	}
	theirs, err := os.ReadFile(ca + "/ca.crt")
	must.NoError(t, err)
	own, err := os.ReadFile(ca + "2/ca.crt")
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(ca+"2/both.crt", append(theirs, own...), 0o600))
	id, err := api.LoadIdentity(api.TLSFiles{CA: ca + "2/both.crt", Cert: ca + "2/n1.crt", Key: ca + "2/n1.key"})
	must.NoError(t, err)
	forged := api.DialTLS(addr, "n2", id, time.Minute)
	defer forged.Close()
	if err := send(forged, hostapi.EventEnd, job, run); !errors.Is(err, api.ErrUnsent) {
		t.Errorf("a forged certificate: %v", err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		io.WriteString(conn, "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
		conn.SetDeadline(time.Now().Add(time.Minute))
		if b, _ := io.ReadAll(conn); strings.Contains(string(b), "200 OK") {
			t.Errorf("plain TCP: %q", b)
		}
		conn.Close()
	}
	root, err := api.Dial(n.path("run/s"))
	must.NoError(t, err)
	defer root.Close()
	must.Eventually(t, "the refusals are counted", func() bool {
		info, err := root.Node(t.Context())
		return err == nil && info.Refused["certificate"] == 2 && info.Refused["denied"] == 1
	})
	if r := n.hookhost("doctor", "--json"); !strings.Contains(r.stdout, "certificate 2, denied 1") {
		t.Error("doctor does not tell of the refusals")
	}
	b, _ := os.ReadFile(n.path("log"))
	if !strings.Contains(string(b), "host n3") || !strings.Contains(string(b), "kind=certificate") {
		t.Error("the log does not tell of the refusals")
	}

	// A head that is taken off the list begins nothing more, and still ends what it has begun:
	// also with the daemon after this one.
	text, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(n.path("hookhost.toml"),
		[]byte(strings.Replace(string(text), `heads = ["n1"]`, `heads = []`, 1)), 0o600))
	d.cmd.Process.Signal(syscall.SIGHUP)
	must.Eventually(t, "heads is in force", func() bool {
		err := send(n1, hostapi.EventBegin, "14.srv", run)
		if err == nil {
			send(n1, hostapi.EventAbort, "14.srv", run)
		}
		return err != nil && strings.Contains(err.Error(), "sister.heads")
	})
	d.kill()
	n.serve()
	must.Eventually(t, "the next daemon listens", func() bool { _, err := n1.Node(t.Context()); return err == nil })
	if err := send(n1, hostapi.EventEpilogue, job, run); err != nil {
		t.Error(err)
	}
	for range 2 { // it may not have heard the first answer
		if err := send(n1, hostapi.EventEnd, job, run); err != nil {
			t.Error(err)
		}
	}
	if _, ok := lives(job); ok {
		t.Error("the job lives on after its end")
	}
	if r := n.event("execjob_end", "13.srv", ""); r.status != 0 {
		t.Errorf("end of pbs_mom's job: %+v", r)
	}
}

// A daemon does not start as somebody else.
func TestServeWithAnothersCertificate(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca")
	n := newNode(t, "[host]\nnode = \"n2\"", "[sister]",
		fmt.Sprintf("listen = \"127.0.0.1:1\"\nca = %q\ncert = %q\nkey = %q", ca+"/ca.crt", ca+"/n1.crt", ca+"/n1.key"))
	if r := n.hookhost("serve"); r.status != 1 || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("without files: %+v", r)
	}
	if r := n.hookhost("cert", "--dir", ca, "n1"); r.status != 0 {
		t.Fatalf("cert: %+v", r)
	}
	if r := n.hookhost("serve"); r.status != 1 ||
		!strings.Contains(r.stderr, "sister.cert: the certificate is for n1, this node is n2") {
		t.Errorf("%+v", r)
	}
}
