package hostapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestCheckNotice(t *testing.T) {
	long := strings.Repeat("x", hostapi.MaxLine+1)
	for _, tt := range []struct {
		name, id string
		u        *hostapi.JobUpdate
		want     string // a part of the error; "" for none
	}{
		{"a line", "1.srv", &hostapi.JobUpdate{JobStderr: []string{"Killed process 1 (a)\tü"}, Diag: "d",
			Notes: []string{""}}, ""},
		{"nothing", "1.srv", &hostapi.JobUpdate{}, ""},
		{"no update", "1.srv", nil, "update: empty"},
		{"no job", "../1", &hostapi.JobUpdate{}, "job id"},
		{"two lines", "1.srv", &hostapi.JobUpdate{JobStderr: []string{"a\nb"}},
			"job_stderr: \"a\\nb\" holds a control character"},
		{"an escape", "1.srv", &hostapi.JobUpdate{Notes: []string{"\x1b[2J"}}, "notes: "},
		{"an escape of C1", "1.srv", &hostapi.JobUpdate{Notes: []string{"\u009b2J"}}, "notes: "},
		{"diag", "1.srv", &hostapi.JobUpdate{Diag: "a\rb"}, "diag: "},
		{"not UTF-8", "1.srv", &hostapi.JobUpdate{Diag: "\xff"}, "diag: "},
		{"a long line", "1.srv", &hostapi.JobUpdate{JobStderr: []string{long}}, "job_stderr: a line of 4097 bytes"},
		{"many lines", "1.srv", &hostapi.JobUpdate{Notes: make([]string, hostapi.MaxNoticeLines+1)}, "notes: 65 lines"},
		{"state", "1.srv", &hostapi.JobUpdate{State: make(json.RawMessage, hostapi.MaxState+1)}, "state: "},
		{"call_again", "1.srv", &hostapi.JobUpdate{CallAgain: -1}, "call_again: "},
		{"attach_env", "1.srv", &hostapi.JobUpdate{AttachEnv: map[string]string{"A": "1"}},
			"attach_env: begin, resize"},
		{"a column of another length", "1.srv", &hostapi.JobUpdate{Usage: &hostapi.HostUsage{Series: &hostapi.Series{
			Times: []int64{1, 2}, Columns: map[string]hostapi.Column{"cpu": {1}}}}},
			"usage: series: columns.cpu: 1 values for 2 times"},
		{"ranks", "1.srv", &hostapi.JobUpdate{Usage: &hostapi.HostUsage{
			Ranks: make([]hostapi.RankUsage, hostapi.MaxRanks+1)}}, "usage: ranks: 4097 are more than 4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := hostapi.CheckNotice(tt.id, tt.u)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// teller is a hook that hands its Setup.Tell out.
type teller struct {
	tell func(string, *hostapi.JobUpdate)
}

func (*teller) ExecjobEnd(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
	return nil, nil
}

func newTeller(t *testing.T) (func(string, *hostapi.JobUpdate), *hooktest.Hook) {
	hook := &teller{}
	h := hooktest.New(t, func(s *hostapi.Setup) (any, error) {
		hook.tell = s.Tell
		s.Tell("0.srv", &hostapi.JobUpdate{Diag: "from the constructor"})
		return hook, nil
	}, "")
	return hook.tell, h
}

// Notices arrive whole and in order, whatever goroutine tells them.
func TestNoticesArriveWholeAndInOrder(t *testing.T) {
	tell, h := newTeller(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if id, u, err := h.Notice(ctx); id != "0.srv" || err != nil || u.Diag != "from the constructor" {
		t.Errorf("got %s, %+v, %v", id, u, err)
	}
	const each = 300
	var tellers sync.WaitGroup
	for job := range 4 {
		tellers.Go(func() {
			for i := range each {
				tell(fmt.Sprintf("%d.srv", job),
					&hostapi.JobUpdate{JobStderr: []string{fmt.Sprint(i)},
						Usage: &hostapi.HostUsage{OOMKills: new(int64(i))}})
			}
		})
	}
	seen := map[string]int{}
	for range 4 * each {
		id, u, err := h.Notice(ctx)
		must.NoError(t, err)
		i := seen[id]
		want := &hostapi.JobUpdate{JobStderr: []string{fmt.Sprint(i)},
			Usage: &hostapi.HostUsage{OOMKills: new(int64(i))}}
		if diff := cmp.Diff(want, u); diff != "" {
			t.Fatalf("notice %d of job %s: -want +got:\n%s", i, id, diff)
		}
		seen[id]++
	}
	tellers.Wait()
	done, stop := context.WithCancel(ctx)
	stop()
	if _, _, err := h.Notice(done); !errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
}

// A notice that the host would not take is not sent.
func TestTellNonsense(t *testing.T) {
	tell, h := newTeller(t)
	tell("1.srv", nil)
	tell("", &hostapi.JobUpdate{})
	tell("1.srv", &hostapi.JobUpdate{JobStderr: []string{"a\nb"}})
	tell("1.srv", &hostapi.JobUpdate{ResourcesUsed: hostapi.Resources{"x": strings.Repeat("x", hostapi.MaxNotice)}})
	tell("1.srv", &hostapi.JobUpdate{Notes: []string{"good"}})
	h.Notice(t.Context()) // the constructor's
	if id, u, err := h.Notice(t.Context()); id != "1.srv" || err != nil || len(u.Notes) != 1 {
		t.Errorf("got %s, %+v, %v", id, u, err)
	}
}
