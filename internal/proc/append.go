package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// appendLimit is how long the file may take, since it may be on a server that does not answer.
const appendLimit = 5 * time.Second

// AppendAs appends text to a file as a user with one group, who may control the path. It fails for
// links and anything other than a regular file. AppendAs does not create a file, and fails if the
// file takes longer than 5 seconds.
func AppendAs(uid, gid int, path, text string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("open %s: not an absolute path", path)
	}
	done := make(chan error, 1)
	go func() { done <- As(uid, gid, func() error { return appendTo(path, text) }) }()
	select {
	case err := <-done:
		return err
	case <-time.After(appendLimit):
		return fmt.Errorf("open %s: no answer in %v", path, appendLimit)
	}
}

func appendTo(path, text string) error {
	// O_NONBLOCK, because opening a fifo would wait for a reader.
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY |
		unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("open %s: not a regular file", path)
	}
	_, err = f.WriteString(text)
	return err
}
