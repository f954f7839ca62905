package hostapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hookhost/hookhost/hostapi/internal/hookpb"
)

// Bounds on one notice. A hook that has more to say waits for the job's next event.
const (
	MaxNotice      = MaxState + 256<<10 // bytes, as JSON
	MaxNoticeLines = 64                 // of job_stderr, and of notes
	MaxLine        = 4 << 10            // bytes of a line, and of diag
)

// Bounds on what waits in the hook's program for a host that is busy.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 8 << 20
)

// sayEvery is how often the log is told that notices are dropped.
const sayEvery = time.Minute

// CheckNotice returns an error when the host would not take u as a notice about the job: an id that is none, an update that
// is empty or too large, a text that is not one line of printable characters. The error begins with the key.
func CheckNotice(jobID string, u *JobUpdate) error {
	if err := CheckJobID(jobID); err != nil {
		return err
	}
	if u == nil {
		return errors.New("update: empty")
	}
	if err := checkKept("", u.State, u.CallAgain, u.CallAtElapsed, u.WalltimeLimit); err != nil {
		return err
	}
	if len(u.Strays) > 0 {
		return errors.New("strays: a periodic tells them")
	}
	if u.AttachEnv != nil {
		return errors.New("attach_env: begin, resize, startup and periodic tell it")
	}
	if err := checkLine("diag", u.Diag); err != nil {
		return err
	}
	for key, lines := range map[string][]string{"job_stderr": u.JobStderr, "notes": u.Notes} {
		if len(lines) > MaxNoticeLines {
			return fmt.Errorf("%s: %d lines are more than %d", key, len(lines), MaxNoticeLines)
		}
		for _, line := range lines {
			if err := checkLine(key, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLine refuses what could steer a terminal or be taken for several lines: it reaches the job's standard error
// without anybody's look at it.
func checkLine(key, text string) error {
	switch {
	case len(text) > MaxLine:
		return fmt.Errorf("%s: a line of %d bytes is longer than %d", key, len(text), MaxLine)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s: %q is not UTF-8", key, text)
	case strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) >= 0:
		return fmt.Errorf("%s: %q holds a control character", key, text)
	}
	return nil
}

// teller keeps what the hook tells between events until the host has taken it.
type teller struct {
	log  *logrus.Logger
	wake chan struct{} // holds one token while there may be something to send

	mu      sync.Mutex
	heard   bool // the host opens the stream
	open    bool
	waiting []*hookpb.Notice
	bytes   int
	dropped int       // that the log does not have yet
	said    time.Time // when it was last told of some
}

func newTeller(log *logrus.Logger) *teller {
	return &teller{log: log, wake: make(chan struct{}, 1)}
}

// tell is Setup.Tell.
func (t *teller) tell(jobID string, update *JobUpdate) {
	n, err := noticeOf(jobID, update)
	if err == nil {
		err = t.push(n)
	}
	if err != nil {
		t.log.WithField("job", jobID).Errorf("notice dropped: %v", err)
	}
}

func noticeOf(jobID string, update *JobUpdate) (*hookpb.Notice, error) {
	if err := CheckNotice(jobID, update); err != nil {
		return nil, err
	}
	b, err := json.Marshal(update)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxNotice {
		return nil, fmt.Errorf("%d bytes are more than %d", len(b), MaxNotice)
	}
	return &hookpb.Notice{Job: jobID, Update: b}, nil
}

// push puts n last in the line. Of the notices that find it full only one is an error now and then, and says how many there
// were before: who floods the host, which makes room for one after the other, is not to flood its log.
func (t *teller) push(n *hookpb.Notice) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.heard:
		return errors.New("this host takes no notices")
	case len(t.waiting) < maxWaiting && t.bytes+len(n.Update) <= maxWaitingBytes:
	case time.Since(t.said) < sayEvery:
		t.dropped++
		return nil
	default:
		before := t.dropped
		t.dropped, t.said = 0, time.Now()
		return fmt.Errorf("%d are waiting for the host, and %d were dropped before", len(t.waiting), before)
	}
	if t.dropped > 0 && time.Since(t.said) >= sayEvery {
		t.log.Errorf("%d notices were dropped because the host was busy", t.dropped)
		t.dropped, t.said = 0, time.Now()
	}
	t.waiting = append(t.waiting, n)
	t.bytes += len(n.Update)
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return nil
}

// first returns what is to be sent next, nil when there is nothing.
func (t *teller) first() *hookpb.Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return nil
	}
	return t.waiting[0]
}

// sent takes the first notice out of the line.
func (t *teller) sent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= len(t.waiting[0].Update)
	t.waiting[0] = nil
	if t.waiting = t.waiting[1:]; len(t.waiting) == 0 {
		t.waiting = nil // gives the memory of a burst back
	}
}

// serve sends what is told until ctx ends or send fails. What was not sent is kept for the next stream.
func (t *teller) serve(ctx context.Context, send func(*hookpb.Notice) error) error {
	if !t.take() {
		return status.Error(codes.FailedPrecondition, "notices are listened to already")
	}
	defer t.leave()
	for {
		for n := t.first(); n != nil; n = t.first() {
			if err := send(n); err != nil {
				return err
			}
			t.sent()
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *teller) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		return false
	}
	t.open = true
	return true
}

func (t *teller) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
	if len(t.waiting) > 0 { // for the next stream
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// hear notes whether the host takes notices.
func (t *teller) hear(heard bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = heard
}

// Notices calls take, one call after the other, with each update that the hook tells between events, until ctx ends or the
// program is gone; then it returns nil. It returns nil at once for a hook that was built before there were notices. While
// take works the hook's notices wait, at last in the hook itself. A notice that the hook may not give comes as an
// error, without an update.
func (c *Client) Notices(ctx context.Context, take func(jobID string, update *JobUpdate, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.hook.Notices(ctx, &hookpb.NoticesRequest{}, grpc.MaxCallRecvMsgSize(2*MaxNotice))
	if err != nil {
		return noticesError(ctx, err)
	}
	for {
		n, err := stream.Recv()
		if err != nil {
			return noticesError(ctx, err)
		}
		update, err := decodeNotice(n)
		take(n.Job, update, err)
	}
}

func decodeNotice(n *hookpb.Notice) (*JobUpdate, error) {
	update := new(JobUpdate)
	if err := json.Unmarshal(n.Update, update); err != nil {
		return nil, Errorf(KindInternal, "notice: %w", err)
	}
	if err := CheckNotice(n.Job, update); err != nil {
		return nil, Errorf(KindInternal, "notice: %w", err)
	}
	return update, nil
}

// noticesError is nil for the ways in which a stream ends that are in order.
func noticesError(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unavailable:
		return nil
	case codes.Canceled:
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	return Errorf(KindInternal, "notices: %s", status.Convert(err).Message())
}
