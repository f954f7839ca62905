package kernfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Reader is a file that stays open because it is read repeatedly. The kernel must show it in one
// piece, as /proc/stat and attributes of cgroupfs. It then creates the text anew at each read from
// the beginning (seq_file.rst). A Reader that is no longer referenced closes its file. A Reader is
// safe for concurrent use.
type Reader struct {
	fs   *FS
	name string

	mu   sync.Mutex // held for a whole text: another read from the beginning would replace it
	file *os.File   // nil until it is read; it owns the descriptor
}

// Reader returns a reader of the file name. It does not open the file yet.
func (f *FS) Reader(name string) *Reader { return &Reader{fs: f, name: name} }

// ReadFile returns the current contents of the file. It fails as FS.ReadFile does.
func (r *Reader) ReadFile() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inMemory, err := r.open()
	switch {
	case err != nil:
		return nil, err
	case inMemory:
		return r.fs.ReadFile(r.name)
	}
	b, err := readAll(&fromStart{file: r.file}, true)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.fs.Path(r.name), err)
	}
	return b, nil
}

// View calls see with the current contents of the file, and returns its error. The text is only
// valid during the call. Reading a file of the usual size leaves no garbage. View fails as
// FS.ReadFile does.
func (r *Reader) View(see func(text []byte) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	inMemory, err := r.open()
	switch {
	case err != nil:
		return err
	case inMemory:
		text, err := r.fs.ReadFile(r.name)
		if err != nil {
			return err
		}
		return see(text)
	}
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	text := buffer[:0]
	for from := (fromStart{file: r.file}); ; {
		n, err := from.read(text[len(text):cap(text)])
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", r.fs.Path(r.name), err)
		}
		if text = text[:len(text)+n]; len(text) < cap(text) {
			return see(text)
		}
		text = slices.Grow(text, len(text))
	}
}

// open opens the file if it is not open. inMemory is true for a file of a backend in memory, which
// must be opened for each read. The caller holds mu.
func (r *Reader) open() (inMemory bool, err error) {
	if r.file != nil {
		return false, nil
	}
	opened, err := r.fs.OpenFile(r.name, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	f, ok := opened.(*file)
	if !ok {
		return true, opened.Close()
	}
	r.file = os.NewFile(uintptr(f.fd), r.name)
	return false, nil
}

// Close closes the file until it is read again.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// fromStart reads an open file from its beginning.
type fromStart struct {
	file *os.File
	at   int64
}

func (r *fromStart) Read(b []byte) (int, error) {
	n, err := r.read(b)
	if err == nil && n == 0 && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

// read is Read, except that it returns 0 and no error at the end of the file.
func (r *fromStart) read(b []byte) (int, error) {
	for {
		n, err := unix.Pread(int(r.file.Fd()), b, r.at)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		default:
			r.at += int64(n)
			return n, nil
		}
	}
}
