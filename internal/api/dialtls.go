package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnsent says that a call never reached its host: nothing was carried out there.
var ErrUnsent = errors.New("not sent")

// unsent is an error of which errors.Is(err, ErrUnsent) holds; its text is the cause's.
type unsent struct{ error }

func (u unsent) Unwrap() error        { return u.error }
func (u unsent) Is(target error) bool { return target == ErrUnsent }

// connsToHost is how many connections a client has to its host at a time; further calls wait for
// one of them. The host would close those beyond its own bound (connsPerHost) unheard, and the
// commands of this host that call by themselves need some too.
const connsToHost = connsPerHost - 16

// maxHostAnswer bounds what is read of another host's answer: many answer at the same time.
const maxHostAnswer = 16 << 20

// DialTLS returns a client of the hookhost of another host, which listens on addr. The client
// connects at its first call, at most for connect at a time, and keeps one idle connection for two
// minutes. The certificate at addr has to be host's.
//
// An error of a call that was certainly not carried out is ErrUnsent, ErrVersion or an *Error.
// After any other it is not known.
func DialTLS(addr, host string, id *Identity, connect time.Duration) *Client {
	c := &Client{host: host}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialTLS(ctx, addr, id.client(host), connect)
			if err != nil {
				return nil, unsent{fmt.Errorf("connect to %s: %w", addr, causeOf(err))}
			}
			return conn, nil
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1,
		MaxConnsPerHost:     connsToHost,
		IdleConnTimeout:     2 * time.Minute, // below the server's: the side that knows of the next call hangs up first
	}
	return c
}

func dialTLS(ctx context.Context, addr string, config *tls.Config, connect time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connect)
	defer cancel()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { return dropAfter(raw, connect) }}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, refused{err}
	}
	return secured, nil
}

// dropAfter has the kernel give up a connection whose other side takes no more of it for that long:
// tcp(7), TCP_USER_TIMEOUT. A caller would otherwise wait for a host that has gone off the network
// as for a host that works.
func dropAfter(raw syscall.RawConn, after time.Duration) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
	return errors.Join(err, set)
}

// causeOf leaves out what net says of addresses.
func causeOf(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return op.Err
	}
	return err
}

// refused is the error of a handshake that one of the two sides has ended; its text is the cause's.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// IsAnswered returns true if somebody at the host's address has answered a call that failed with
// err. The answer is an *Error, or the end of the handshake, such as with a certificate that is not
// believed.
func IsAnswered(err error) bool {
	_, answered := errors.AsType[*Error](err)
	_, ended := errors.AsType[refused](err)
	return answered || ended || refusedCertificate(err)
}

// refusedCertificate returns true if the other side has ended a handshake that was over for this
// one. In TLS 1.3 the server looks at the client's certificate last, and its alert comes in place
// of the first answer. The server has read nothing of what was sent.
func refusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
