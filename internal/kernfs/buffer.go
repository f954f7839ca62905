package kernfs

import (
	"errors"
	"io"
	"slices"
	"sync"
)

// buffers are what files and directories are read into: most are read whole by one call, and leave
// no garbage but what their reader keeps.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// firstRead is what is asked of a file at first. The kernel sets aside as much for a file of
// /proc/sys (proc_sys_call_handler), and makes most others in a page.
const firstRead = 4 << 10

// readAll returns the whole of an open file: one read for the text, as a rule, and one for the end.
// A file that is shown in one piece has ended where a read leaves room.
func readAll(file io.Reader, onePiece bool) ([]byte, error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	b, room := buffer[:0], firstRead
	for {
		n, err := file.Read(b[len(b):room])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) || err == nil && onePiece && len(b) < room {
			return slices.Clone(b), nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b)) // the buffer of all stays as it is
		}
		room = cap(b)
	}
}
