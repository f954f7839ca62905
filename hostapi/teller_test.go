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

func testTeller() (*teller, *bytes.Buffer) {
	var log bytes.Buffer
	l := logrus.New()
	l.SetOutput(&log)
	t := newTeller(l)
	t.hear(true)
	return t, &log
}

// A host that does not listen takes a bounded number of notices; what is dropped is logged in two lines, also where room is
// made for one after the other.
func TestTellerFull(t *testing.T) {
	tell, log := testTeller()
	for range maxWaiting + 500 {
		tell.tell("1.srv", &JobUpdate{Diag: "x"})
	}
	if n := len(tell.waiting); n != maxWaiting {
		t.Errorf("%d notices wait, want %d", n, maxWaiting)
	}
	for range 100 {
		tell.sent()
		tell.tell("1.srv", &JobUpdate{Diag: "x"})
		tell.tell("1.srv", &JobUpdate{Diag: "x"})
	}
	sent := 0
	ctx, cancel := context.WithCancel(t.Context())
	err := tell.serve(ctx, func(*hookpb.Notice) error {
		if sent++; sent == maxWaiting {
			cancel()
		}
		return nil
	})
	if err != nil || sent != maxWaiting || tell.bytes != 0 {
		t.Errorf("%d sent, %d bytes left, %v", sent, tell.bytes, err)
	}
	tell.said = tell.said.Add(-sayEvery)
	tell.tell("1.srv", &JobUpdate{Diag: "x"})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "4096 are waiting") || !strings.Contains(lines[1], "599 notices were dropped") {
		t.Errorf("log: %q", lines)
	}
}

// Large notices are bounded by their bytes.
func TestTellerFullOfBytes(t *testing.T) {
	tell, _ := testTeller()
	for range 20 {
		tell.tell("1.srv", &JobUpdate{State: []byte(`"` + strings.Repeat("x", MaxState-2) + `"`)})
	}
	if n := len(tell.waiting); n != maxWaitingBytes/(1<<20)-1 {
		t.Errorf("%d notices of 1 MiB wait", n)
	}
}

// A stream that breaks loses nothing: the next one goes on with the notice that was not sent.
func TestTellerStreams(t *testing.T) {
	tell, _ := testTeller()
	for i := range 4 {
		tell.tell("1.srv", &JobUpdate{Diag: fmt.Sprint(i)})
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
	if err := tell.serve(ctx, send); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	broken = nil
	if err := tell.serve(ctx, send); err != nil {
		t.Error(err)
	}
	if text := strings.Join(got, ""); text != `{"diag":"0"}{"diag":"1"}{"diag":"2"}{"diag":"3"}` {
		t.Errorf("sent %s", text)
	}
}

// A host from before there were notices does not take any, and that is said.
func TestTellerUnheard(t *testing.T) {
	tell, log := testTeller()
	tell.hear(false)
	tell.tell("1.srv", &JobUpdate{Diag: "x"})
	if !strings.Contains(log.String(), "takes no notices") || len(tell.waiting) != 0 {
		t.Errorf("log %q, %d wait", log, len(tell.waiting))
	}
}
