package hostapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi/internal/hookpb"
)

func testQueue() (*noticeQueue, *bytes.Buffer) {
	var log bytes.Buffer
	l := logrus.New()
	l.SetOutput(&log)
	q := newNoticeQueue(l)
	q.heard.Store(true)
	return q, &log
}

// A host that does not listen has a bounded number of notices wait. The log has one line of those
// that are dropped, also where room is made for one after the other.
func TestNoticesThatNobodyTakesAreBounded(t *testing.T) {
	q, log := testQueue()
	for range maxWaiting + 500 {
		q.add("1.srv", &JobUpdate{Diag: "x"})
	}
	if n := len(q.waiting); n != maxWaiting {
		t.Errorf("%d notices wait, want %d", n, maxWaiting)
	}
	sent := 0
	ctx, cancel := context.WithCancel(t.Context())
	err := q.serve(ctx, func(*hookpb.Notice) error {
		switch sent++; {
		case sent <= 100:
			q.add("1.srv", &JobUpdate{Diag: "x"})
			q.add("1.srv", &JobUpdate{Diag: "x"})
		case len(q.waiting) == 0:
			cancel()
		}
		return nil
	})
	if err != nil || sent != maxWaiting+100 || q.bytes.Load() != 0 {
		t.Errorf("%d sent, %d bytes left, %v", sent, q.bytes.Load(), err)
	}
	if n := q.dropped.Load(); n != 499+100 {
		t.Errorf("%d dropped that the log does not have, want 599", n)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], "1 notices were dropped") {
		t.Errorf("log: %q", lines)
	}
}

func TestLargeNoticesAreBoundedByTheirBytes(t *testing.T) {
	q, _ := testQueue()
	for range 20 {
		q.add("1.srv", &JobUpdate{State: []byte(`"` + strings.Repeat("x", MaxState-2) + `"`)})
	}
	if n := len(q.waiting); n != maxWaitingBytes/(1<<20)-1 {
		t.Errorf("%d notices of 1 MiB wait", n)
	}
}

// A stream that breaks loses nothing: the next one goes on with the notice that was not sent.
func TestBrokenStreamOfNoticesLosesNone(t *testing.T) {
	q, _ := testQueue()
	for i := range 4 {
		q.add("1.srv", &JobUpdate{Diag: fmt.Sprint(i)})
	}
	var got []string
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	send := func(n *hookpb.Notice) error {
		if len(got) == 2 && broken != nil {
			return broken
		}
		if got = append(got, string(n.Update)); len(got) == 4 {
			cancel()
		}
		return nil
	}
	if err := q.serve(ctx, send); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	broken = nil
	if err := q.serve(ctx, send); err != nil {
		t.Error(err)
	}
	if text := strings.Join(got, ""); text != `{"diag":"0"}{"diag":"1"}{"diag":"2"}{"diag":"3"}` {
		t.Errorf("sent %s", text)
	}
}

// A host from before there were notices does not take any. The log says so.
func TestHostWithoutNoticesIsLogged(t *testing.T) {
	q, log := testQueue()
	q.heard.Store(false)
	q.add("1.srv", &JobUpdate{Diag: "x"})
	if !strings.Contains(log.String(), "takes no notices") || len(q.waiting) != 0 {
		t.Errorf("log %q, %d wait", log, len(q.waiting))
	}
}
