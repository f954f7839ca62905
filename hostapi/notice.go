package hostapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hookhost/hookhost/hostapi/internal/hookpb"
)

// Bounds on one notice. A hook that has more to report waits for the job's next event.
const (
	MaxNotice      = MaxState + 256<<10 // bytes, as JSON
	MaxNoticeLines = 64                 // of job_stderr, and of notes
	MaxLine        = 4 << 10            // bytes of a line, and of diag
)

// Bounds on the notices that wait in the hook's program while the host is busy.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 8 << 20
)

// CheckNotice returns an error if the host would not accept u as a notice about the job. The id may
// be malformed, the update empty or too large, or a text more than one line of printable
// characters. The error begins with the key.
func CheckNotice(jobID string, u *JobUpdate) error {
	if err := CheckJobID(jobID); err != nil {
		return err
	}
	if u == nil {
		return errors.New("update: empty")
	}
	if err := u.check(); err != nil {
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

// checkLine rejects text that could control a terminal or be taken for several lines: it reaches
// the job's standard error unchecked.
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

// noticeQueue holds the notices that the host has not received yet. Its bounds guard against a hook
// that sends notices without end.
type noticeQueue struct {
	log     *logrus.Logger
	heard   atomic.Bool // the host opens the stream
	waiting chan *hookpb.Notice
	bytes   atomic.Int64 // of all waiting notices
	dropped atomic.Int64 // since this was last logged
	lines   rate.Sometimes

	stream sync.Mutex     // held by the stream that is open
	first  *hookpb.Notice // out of waiting, but not sent yet
}

func newNoticeQueue(log *logrus.Logger) *noticeQueue {
	return &noticeQueue{
		log: log, waiting: make(chan *hookpb.Notice, maxWaiting), lines: rate.Sometimes{Interval: time.Minute},
	}
}

// add implements Setup.Tell.
func (q *noticeQueue) add(jobID string, update *JobUpdate) {
	n, err := noticeOf(jobID, update)
	switch {
	case err == nil && !q.heard.Load():
		err = errors.New("this host takes no notices")
	case err == nil && !q.push(n):
		q.dropped.Add(1)
		q.lines.Do(func() { q.log.Errorf("%d notices were dropped: too many wait for the host", q.dropped.Swap(0)) })
	}
	if err != nil {
		q.log.WithField("job", jobID).Errorf("notice dropped: %v", err)
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

// push appends n to the queue, and returns false if there is no room.
func (q *noticeQueue) push(n *hookpb.Notice) bool {
	size := int64(len(n.Update))
	if q.bytes.Add(size) <= maxWaitingBytes {
		select {
		case q.waiting <- n:
			return true
		default:
		}
	}
	q.bytes.Add(-size)
	return false
}

// serve sends notices until ctx ends or send fails. A notice that could not be sent is the first of
// the next stream.
func (q *noticeQueue) serve(ctx context.Context, send func(*hookpb.Notice) error) error {
	if !q.stream.TryLock() {
		return status.Error(codes.FailedPrecondition, "notices are listened to already")
	}
	defer q.stream.Unlock()
	for {
		if q.first == nil {
			select {
			case q.first = <-q.waiting:
			case <-ctx.Done():
				return nil
			}
		}
		if err := send(q.first); err != nil {
			return err
		}
		q.bytes.Add(-int64(len(q.first.Update)))
		q.first = nil
	}
}

// Notices calls each with every update that the hook sends between events, one call after the
// other. It returns nil when ctx ends or the program is gone. For a hook built before there were
// notices it returns nil at once. While each is working, the hook's notices wait, finally in the
// hook itself. A notice that is not allowed is passed as an error, without an update.
func (c *Client) Notices(ctx context.Context, each func(jobID string, update *JobUpdate, err error)) error {
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
		each(n.Job, update, err)
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

// noticesError returns nil if the stream ended normally.
func noticesError(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unavailable, codes.Canceled:
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	return Errorf(KindInternal, "notices: %s", status.Convert(err).Message())
}
