package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// ErrNoHost means that nobody serves the socket: it does not exist, or its host is dead.
var ErrNoHost = errors.New("no daemon runs")

// ErrSilent means that the kernel accepted the call and the host at the socket gave no sign of
// life. The host is stopped or stuck, or has not begun to serve.
var ErrSilent = errors.New("no sign of life")

// silence is how long a host may take to give its first sign of life. Its answer may take longer.
const silence = 5 * time.Second

// fresh is how long Dial's connection waits for the first call. The host closes a connection on
// which no request arrives for five seconds.
const fresh = 2 * time.Second

// maxAnswer bounds how much of an answer a client reads.
const maxAnswer = 64 << 20

// Client calls a host. A client is safe for concurrent use. Its errors are the host's own (*Error),
// ErrNoHost if there is none, ErrSilent, or those of a broken connection. After the last two it is
// unknown whether the call was carried out.
type Client struct {
	socket  string
	silence time.Duration
	http    http.Client
	first   atomic.Pointer[net.UnixConn] // made by Dial, used by the first call
}

// Dial returns a client of the host at socket, or ErrNoHost.
func Dial(socket string) (*Client, error) {
	c := &Client{socket: socket, silence: silence}
	conn, err := c.connect(context.Background())
	if err != nil {
		return nil, err
	}
	c.first.Store(conn)
	dialed := time.Now()
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn := c.first.Swap(nil)
			if conn != nil && time.Since(dialed) < fresh {
				return conn, nil
			}
			if conn != nil {
				conn.Close()
			}
			return c.connect(ctx)
		},
		DisableCompression: true,
		MaxIdleConns:       4,
		IdleConnTimeout:    30 * time.Second, // below the server's, so that the client hangs up first
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	// EAGAIN: the host's backlog is full.
	for until := time.Now().Add(c.silence); errors.Is(err, unix.EAGAIN) && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
		conn, err = d.DialContext(ctx, "unix", c.socket)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("connect to %s: %w: systemctl start hookhost, or hookhost serve &", c.socket, ErrNoHost)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.socket, err)
	}
	return conn.(*net.UnixConn), nil
}

// Close closes the client's idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	if conn := c.first.Swap(nil); conn != nil {
		return conn.Close()
	}
	return nil
}

// Handle makes the host carry out an event. A reject is an Outcome, not an error.
func (c *Client) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := new(hostapi.Outcome)
	if err := c.call(ctx, http.MethodPost, "/v1/events/"+url.PathEscape(string(req.Event)), req, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Attach adds the process pid to a job. job "" means the only one that the process's user has here.
// Without an error, the outcome is never nil. It holds the environment for a program started in the
// job. If a hook rejects the process, the error is an *Error of KindTMHook.
func (c *Client) Attach(ctx context.Context, job string, pid int) (Attached, error) {
	var a Attached
	if err := c.call(ctx, http.MethodPost, "/v1/attach", AttachRequest{Job: job, PID: pid}, &a); err != nil {
		return Attached{}, err
	}
	if a.Outcome == nil {
		a.Outcome = &hostapi.Outcome{}
	}
	if a.Outcome.Reject {
		return a, &Error{Status: http.StatusOK, Kind: KindTMHook, Message: a.Outcome.Message}
	}
	return a, nil
}

// Jobs returns the jobs on the host that the caller may see.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	l, err := get[jobList](ctx, c, "/v1/jobs")
	return l.Jobs, err
}

// NewJobID returns an id for a job that this host will begin.
func (c *Client) NewJobID(ctx context.Context) (string, error) {
	var n newJob
	err := c.call(ctx, http.MethodPost, "/v1/jobs", nil, &n)
	return n.ID, err
}

// Job returns a job that lives on the host. The error is ErrNotFound if there is no such job, or if
// the caller may not know of it.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return get[Job](ctx, c, "/v1/jobs/"+url.PathEscape(id))
}

// Mine returns the job that this process is in. The error is ErrNotFound if the process is in no
// job, or in another user's.
func (c *Client) Mine(ctx context.Context) (Job, error) {
	return get[Job](ctx, c, "/v1/jobs/mine")
}

// Report returns the usage report of a job, or ErrNotFound.
func (c *Client) Report(ctx context.Context, id string) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/jobs/"+url.PathEscape(id)+"/report")
}

// stream calls yield with each value of a streamed answer, until it returns false. It returns the
// trailer if the answer is complete. what names the values in errors.
func stream[T any](ctx context.Context, c *Client, path, what string, yield func(T) bool) (http.Header, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.open(ctx, cancel, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return nil, fmt.Errorf("call host: read answer: %w", err)
		}
		return nil, decodeError(resp.StatusCode, b)
	}
	for values := json.NewDecoder(resp.Body); ; {
		var v T
		switch err := values.Decode(&v); {
		case errors.Is(err, io.EOF):
			return resp.Trailer, nil
		case err != nil:
			return nil, fmt.Errorf("call host: read %s: %w", what, err)
		}
		if !yield(v) {
			return nil, nil
		}
	}
}

// Node returns the host's description of itself.
func (c *Client) Node(ctx context.Context) (NodeInfo, error) {
	return get[NodeInfo](ctx, c, "/v1/node")
}

// Reload makes the host read its configuration again.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/reload", nil, &struct{}{})
}

// Examine makes the host run `hookhost doctor`, and does not wait for it.
func (c *Client) Examine(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/doctor", nil, &struct{}{})
}

// get returns the answer to a GET request.
func get[T any](ctx context.Context, c *Client, path string) (answer T, err error) {
	err = c.call(ctx, http.MethodGet, path, nil, &answer)
	return answer, err
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.open(ctx, cancel, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readAnswer(resp, out)
}

func readAnswer(resp *http.Response, out any) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("call host: read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return decodeError(resp.StatusCode, b)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("call host: decode answer: %w", err)
	}
	return nil
}

// open sends a request and returns the answer's head. The caller reads the body, and then cancels
// ctx. open cancels ctx if the host at the socket gives no sign of life.
func (c *Client) open(
	ctx context.Context, cancel context.CancelCauseFunc, method, path string, body io.Reader,
) (*http.Response, error) {
	silent := time.AfterFunc(c.silence, func() {
		cancel(fmt.Errorf("%w in %v: it is stopped or stuck", ErrSilent, c.silence))
	})
	defer silent.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { silent.Stop(); return nil },
	})
	req, err := http.NewRequestWithContext(ctx, method, "http://hookhost"+path, body)
	if err != nil {
		return nil, err
	}
	// The body does not wait for it: Transport.ExpectContinueTimeout is 0.
	req.Header.Set("Expect", "100-continue")
	resp, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL is not a real one
		}
		return nil, fmt.Errorf("call host: %w", err)
	}
	return resp, nil
}
