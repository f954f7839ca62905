package main_test

import (
	"fmt"
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

// newRelay makes a relay in the switch.
func (l *lab) newRelay(port int, to string) *relay {
	l.t.Helper()
	r := &relay{}
	var listener net.Listener
	must.NoError(l.t, <-l.inSwitch(func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprintf("%s:%d", relays, port))
		return err
	}))
	l.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			dialled := l.inSwitch(func() error {
				there, err := net.DialTimeout("tcp4", to, 10*time.Second)
				if err == nil {
					go r.forward(from, there)
					go r.forward(there, from)
				}
				return err
			})
			go func() {
				if <-dialled != nil { // as for a host that is not there
					from.Close()
				}
			}()
		}
	}()
	return r
}

// inSwitch calls a function beside the caller, on a thread in the network namespace of the switch.
// The sockets that it makes are of that. The thread ends with it.
func (l *lab) inSwitch(do func() error) <-chan error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", l.hub.pid))
		if err == nil {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
			space.Close()
		}
		if err == nil {
			err = do()
		}
		result <- err
	}()
	return result
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
		if err != nil {
			return
		}
	}
}
