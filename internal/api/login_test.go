package api

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// logins lets users in whose name is alice.
type logins struct{ seen []Login }

func (l *logins) Login(_ context.Context, login Login) (Session, error) {
	l.seen = append(l.seen, login)
	if login.User != "alice" {
		return Session{}, RefusedLogin("No login:\n%s", login.User)
	}
	return Session{Job: "1.srv", Env: map[string]string{"PBS_JOBID": "1.srv"}}, nil
}

func TestLoginIsLetInOrRefusedWithALine(t *testing.T) {
	l := &logins{}
	socket := serve(t, &backend{}, func(s *Server) { s.Logins = l })
	for _, tt := range []struct {
		body   string
		status int
		kind   string
	}{
		{`{"user":"alice","uid":1000}`, 200, `"1.srv"`},
		{`{"user":"bob","uid":1001}`, 403, KindLogin},
		{`{"uid":1000}`, 400, KindMalformed},
		{`{"user":"alice","uid":-1}`, 400, KindMalformed},
		{`{"user":"alice","uid":1000,"pid":1}`, 400, KindMalformed},
		{`{"user":"alice","uid":1000,"pid":-7}`, 400, KindMalformed},
		{`alice`, 400, KindMalformed},
	} {
		got, err := rawCall(socket, "POST", "/v1/login", tt.body)
		if err != nil || got.Status != tt.status || !strings.Contains(got.Body, tt.kind) {
			t.Errorf("%s: %+v, %v", tt.body, got, err)
		}
	}
	client, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	login := Login{User: "alice", UID: 1000, Groups: []string{"a b", "c"}, From: "n1", Job: "7.srv"}
	session, err := client.Login(t.Context(), login)
	if err != nil || session.Env["PBS_JOBID"] != "1.srv" {
		t.Errorf("%+v, %v", session, err)
	}
	if diff := cmp.Diff(login, l.seen[len(l.seen)-1]); diff != "" {
		t.Errorf("-sent +seen:\n%s", diff)
	}
	_, err = client.Login(t.Context(), Login{User: "bob", UID: 1001})
	var refused *Error
	if !errors.As(err, &refused) || refused.Kind != KindLogin || refused.Message != "No login:; bob" {
		t.Errorf("%v", err)
	}
}

// The process of a login is told from a later one with its pid, if its attach has to wait.
func TestLoginHasTheStartTimeOfItsProcess(t *testing.T) {
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	l, b := &logins{}, &backend{procfs: procfs}
	socket := serve(t, b, func(s *Server) { s.Logins = l })
	client, err := Dial(socket)
	must.NoError(t, err)
	defer client.Close()
	_, err = client.Login(t.Context(), Login{User: "alice", UID: 1000, PID: os.Getpid()})
	must.NoError(t, err)
	p, err := b.Process(os.Getpid())
	must.NoError(t, err)
	must.Equal(t, "start time", p.StartTime, l.seen[0].StartTime)
}
