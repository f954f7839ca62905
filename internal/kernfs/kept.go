package kernfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Kept is a file that is read again and again and stays open in between, such as /proc/stat: the kernel makes the text of a file of
// /proc anew when it is read from the beginning (seq_file.rst). It is closed when nobody has it any more. It is safe for concurrent use.
type Kept struct {
	fs   *FS
	name string

	mu   sync.Mutex // held for a whole text: another reader's would be made in between
	file *os.File   // nil until it is read; it owns the descriptor
}

// Keep returns the file name, which it does not open yet.
func (f *FS) Keep(name string) *Kept { return &Kept{fs: f, name: name} }

// ReadFile returns the whole of the file as it is now. It fails as FS.ReadFile does.
func (k *Kept) ReadFile() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		opened, err := k.fs.OpenFile(k.name, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		f, ok := opened.(*file)
		if !ok { // in memory
			opened.Close()
			return k.fs.ReadFile(k.name)
		}
		k.file = os.NewFile(uintptr(f.fd), k.name)
	}
	b, err := readAll(&fromStart{file: k.file})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.fs.Path(k.name), err)
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
