package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"
)

// Bounds of what hosts, and whoever reaches the port, may hold of this one. All hosts together have
// an eighth of the daemon's descriptors at most, and handshakes another.
const (
	maxHandshakes        = 256 // at a time
	handshakesPerAddress = 64  // of them
	handshakeTime        = 5 * time.Second
	connsPerHost         = 64
)

// KindCertificate is the kind of a connection that was refused before it could say anything: its
// host did not prove who it is.
const KindCertificate = "certificate"

// TLSListener is where other hosts reach this one. The certificate of a connection names its host.
// A connection without a certificate of the CA is closed unheard. Handshakes go on beside each
// other, so that a slow one keeps nobody waiting.
type TLSListener struct {
	tcp     net.Listener
	config  *tls.Config
	refused func(peer Peer, call string, err error)
	wait    time.Duration // for a handshake

	ready  chan net.Conn
	slots  chan struct{}
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	conns   *shares // of hosts
	shaking *shares // of addresses, in a handshake
}

// ListenTLS listens on addr, HOST:PORT or :PORT. refused, if not nil, is told of each connection
// that is closed unheard; it may be called at the same time.
func ListenTLS(addr string, id *Identity, refused func(peer Peer, call string, err error)) (*TLSListener, error) {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err // says "listen tcp ADDR"
	}
	return listenTLS(tcp, id, refused, handshakeTime), nil
}

func listenTLS(tcp net.Listener, id *Identity, refused func(Peer, string, error), wait time.Duration) *TLSListener {
	if refused == nil {
		refused = func(Peer, string, error) {}
	}
	most := descriptors() / 8
	l := &TLSListener{
		tcp: tcp, config: id.server(), refused: refused, wait: wait,
		ready: make(chan net.Conn), slots: make(chan struct{}, min(maxHandshakes, most)),
		conns:   &shares{most: most, each: connsPerHost},
		shaking: &shares{most: math.MaxInt, each: handshakesPerAddress}, // slots bound them
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(l.run)
	return l
}

// run accepts connections until Close.
func (l *TLSListener) run() {
	pause := time.Duration(0)
	for {
		conn, err := l.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors left: others may give some back
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
				continue
			case <-l.ctx.Done():
				return
			}
		}
		pause = 0
		from := addressOf(conn)
		if err := l.shaking.enter(from); err != nil {
			l.refuse(conn, "", fmt.Errorf("handshakes that are not done: %w", err))
			conn.Close()
			continue
		}
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			l.shaking.leave(from)
			conn.Close()
			return
		}
		l.work.Go(func() {
			secured := l.shake(conn)
			l.shaking.leave(from)
			<-l.slots
			if secured == nil {
				return
			}
			select {
			case l.ready <- secured:
			case <-l.ctx.Done():
				secured.Close()
			}
		})
	}
}

// shake finds out who is there. Nil: the connection is closed.
func (l *TLSListener) shake(conn net.Conn) net.Conn {
	ctx, cancel := context.WithTimeout(l.ctx, l.wait)
	defer cancel()
	secured := tls.Server(conn, l.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		if l.ctx.Err() == nil {
			l.refuse(conn, "", err)
		}
		hangUp(conn, secured)
		return nil
	}
	host, err := hostOf(secured.ConnectionState().PeerCertificates[0])
	if err == nil {
		err = l.conns.enter(host)
	}
	if err != nil {
		l.refuse(conn, host, err)
		secured.Close()
		return nil
	}
	release := sync.OnceFunc(func() { l.conns.leave(host) })
	return &hostConn{Conn: secured, peer: Peer{UID: -1, Host: host}, release: release}
}

// hangUp closes a connection whose handshake failed. hangUp reads on for a moment. Text that the
// other side has sent already would otherwise reset the connection, before it reads the alert that
// says why.
func hangUp(conn net.Conn, secured *tls.Conn) {
	defer secured.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	io.CopyN(io.Discard, conn, 64<<10)
}

func (l *TLSListener) refuse(conn net.Conn, host string, err error) {
	l.refused(Peer{UID: -1, Host: host}, "connect",
		&Error{Kind: KindCertificate, Message: fmt.Sprintf("connection from %s: %v", conn.RemoteAddr(), err)})
}

func addressOf(conn net.Conn) string {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	return ""
}

// Accept returns the next connection of a host that has proved who it is.
func (l *TLSListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Addr returns the address that it listens on.
func (l *TLSListener) Addr() net.Addr { return l.tcp.Addr() }

// Close stops listening and ends the handshakes. Connections stay open.
func (l *TLSListener) Close() error {
	l.cancel()
	err := l.tcp.Close()
	l.work.Wait()
	return err
}

type hostConn struct {
	*tls.Conn
	peer    Peer
	release func()
}

func (c *hostConn) Close() error {
	c.release()
	return c.Conn.Close()
}

func (c *hostConn) identity() Peer { return c.peer }
