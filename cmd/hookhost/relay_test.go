package main_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// relay is on the way to a host's daemon from all other hosts. Its bytes come late, or not at all
// for a while.
type relay struct {
	delay atomic.Int64 // nanoseconds, of each read
}

// relays is the switch's own address.
const relays = "10.211.0.254"

// newRelay makes a relay in the switch. Its sockets are of the network namespace of the thread that
// makes them, which no other goroutine gets.
func (l *lab) newRelay(port int, to string) *relay {
	l.t.Helper()
	r := &relay{}
	listening := make(chan error)
	go func() {
		runtime.LockOSThread()
		space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", l.hub.pid))
		if err == nil {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
			space.Close()
		}
		var listener net.Listener
		if err == nil {
			listener, err = net.Listen("tcp4", fmt.Sprintf("%s:%d", relays, port))
		}
		listening <- err
		if err != nil {
			return
		}
		l.t.Cleanup(func() { listener.Close() })
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.DialTimeout("tcp4", to, 200*time.Millisecond)
			if err != nil { // as for a host that is not there
				from.Close()
				continue
			}
			go r.forward(from, there)
			go r.forward(there, from)
		}
	}()
	must.NoError(l.t, <-listening)
	return r
}

// forward copies until either end closes.
func (r *relay) forward(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		time.Sleep(time.Duration(r.delay.Load()))
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}
