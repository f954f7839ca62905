package kernfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Reader is a file that is read again and again and stays open in between, such as /proc/stat. The
// kernel makes the text of a file of /proc anew when it is read from the beginning (seq_file.rst).
// The file is closed when nobody has it any more. A Reader is safe for concurrent use.
type Reader struct {
	fs   *FS
	name string

	mu   sync.Mutex // held for a whole text: another reader's would be made in between
	file *os.File   // nil until it is read; it owns the descriptor
}

// Reader returns the reader of the file name, which it does not open yet.
func (f *FS) Reader(name string) *Reader { return &Reader{fs: f, name: name} }

// ReadFile returns the whole of the file as it is now. ReadFile fails as FS.ReadFile does.
func (r *Reader) ReadFile() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		opened, err := r.fs.OpenFile(r.name, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		f, ok := opened.(*file)
		if !ok { // in memory
			opened.Close()
			return r.fs.ReadFile(r.name)
		}
		r.file = os.NewFile(uintptr(f.fd), r.name)
	}
	b, err := readAll(&fromStart{file: r.file})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.fs.Path(r.name), err)
	}
	return b, nil
}

// fromStart reads an open file from its beginning.
type fromStart struct {
	file *os.File
	at   int64
}

func (r *fromStart) Read(b []byte) (int, error) {
	for {
		n, err := unix.Pread(int(r.file.Fd()), b, r.at)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			r.at += int64(n)
			return n, nil
		}
	}
}
