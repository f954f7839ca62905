package kernfs

import (
	"errors"
	"io"
	"slices"
	"sync"
)

// buffers holds memory into which files and directories are read. Usually one call reads a whole
// file, and only the caller's copy is allocated.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// firstRead is the size of the first read of a file. The kernel allocates that much for a file of
// /proc/sys (proc_sys_call_handler), and creates most others in one page.
const firstRead = 4 << 10

// readAll returns the contents of an open file. Usually it needs one read for the text and one for
// the end. A file that the kernel shows in one piece has ended if a read leaves room.
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
			b = slices.Grow(b, len(b)) // a new array: the shared buffer keeps its size
		}
		room = cap(b)
	}
}
