package tm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// frame is one message of remsh to its other end, on ssh's standard input. On the stream are its
// kind, the length (4 bytes, big endian) and so many bytes.
type frame struct {
	kind byte
	data []byte
}

const (
	framePayload = 'p' // the first frame, where the payload is too long for a command line
	frameData    = 'd' // from standard input
	frameEOF     = 'e' // standard input has ended; signals may follow
	frameSignal  = 's' // a name of signals
)

// maxFrame is the longest data of each kind; 0 for a kind that has none.
var maxFrame = map[byte]uint32{framePayload: maxPayload, frameData: 64 << 10, frameEOF: 0, frameSignal: 16}

// signals are those that remsh passes on, by their names in a frame.
var signals = map[string]syscall.Signal{
	"HUP": unix.SIGHUP, "INT": unix.SIGINT, "QUIT": unix.SIGQUIT, "TERM": unix.SIGTERM,
	"USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2, "CONT": unix.SIGCONT, "STOP": unix.SIGSTOP,
}

// writeFrame writes a frame in one call of Write.
func writeFrame(w io.Writer, f frame) error {
	b := make([]byte, 5, 5+len(f.data))
	b[0] = f.kind
	binary.BigEndian.PutUint32(b[1:], uint32(len(f.data)))
	_, err := w.Write(append(b, f.data...))
	return err
}

// readFrame reads a frame, and no more than a frame may have, whatever the other end says. The
// error at the end between two frames is io.EOF.
func readFrame(r io.Reader) (frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: head[0]}
	limit, known := maxFrame[f.kind]
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case !known:
		return frame{}, fmt.Errorf("frame %q: unknown kind", f.kind)
	case n > limit:
		return frame{}, fmt.Errorf("frame %q: %d bytes: %d at most", f.kind, n, limit)
	case n == 0:
		return f, nil
	}
	f.data = make([]byte, n)
	if _, err := io.ReadFull(r, f.data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	if _, known := signals[string(f.data)]; f.kind == frameSignal && !known {
		return frame{}, fmt.Errorf("frame %q: no signal %q", f.kind, f.data)
	}
	return f, nil
}
