package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// paths opens the files that decide what runs as root. Only root and the user that the host runs as
// may be able to change or replace such a file. The same holds for the directories above it.
type paths struct {
	unsafeDirs bool // for tests: directories are not checked
}

// maxLinks is how many symbolic links a path may lead through, as in the kernel.
const maxLinks = 40

// open opens the regular file at path for reading. Others cannot change what resolve has checked,
// so the file is the one at that path.
func (p paths) open(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open %s: not an absolute path", path)
	}
	file, err := p.resolve(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// O_NONBLOCK: opening a fifo would wait for a writer.
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := checkFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}

// CheckProgram returns an error unless path is a regular file that only root, and the user that
// this process runs as, can change or replace.
func CheckProgram(path string) error {
	f, err := paths{}.open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// resolve returns the path without its symbolic links. Each directory and each link is checked
// before the name below it is looked up. So others cannot change the targets of the names.
func (p paths) resolve(path string) (string, error) {
	at, names, links := "/", strings.Split(path, "/"), 0
	for {
		var st unix.Stat_t
		err := unix.Lstat(at, &st)
		isLink := err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case isLink && links == maxLinks:
			err = unix.ELOOP
		case isLink:
			var target string
			if target, err = p.follow(at, st); err == nil {
				links++
				at, names = filepath.Dir(at), append(strings.Split(target, "/"), names...)
				if strings.HasPrefix(target, "/") {
					at = "/"
				}
				continue
			}
		case err == nil && len(names) == 0:
			return at, nil
		case err == nil:
			err = p.checkDir(&st)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", at, err)
		}
		at, names = filepath.Join(at, names[0]), names[1:]
	}
}

// follow returns where a link points.
func (p paths) follow(link string, st unix.Stat_t) (string, error) {
	st.Mode &^= 0o022 // a link's mode means nothing
	if err := disk.CheckOwner(&st); err != nil && !p.unsafeDirs {
		return "", err
	}
	return os.Readlink(link)
}

func (p paths) checkDir(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	if p.unsafeDirs {
		return nil
	}
	// In a sticky directory such as /tmp, others can create names, but neither remove nor replace
	// root's. The next step checks whether the name is root's, link or not.
	own := *st
	if own.Mode&unix.S_ISVTX != 0 {
		own.Mode &^= 0o022
	}
	return disk.CheckOwner(&own)
}

func checkFile(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("not a regular file")
	}
	return disk.CheckOwner(&st)
}

// sum returns the SHA-256 of f's content, in hexadecimal. f's position does not change.
func sum(f *os.File) (string, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, st.Size())); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openSummed opens a file whose SHA-256 must be want; "" skips the comparison.
func (p paths) openSummed(path, want string) (*os.File, error) {
	f, err := p.open(path)
	if err != nil || want == "" {
		return f, err
	}
	got, err := sum(f)
	if err == nil && got != want {
		err = fmt.Errorf("sha256 %.12s..., registered is %.12s...: import it again if it was changed on purpose", got,
			want)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	return f, nil
}

// ReadTrusted returns the content of a file of at most limit bytes that decides what runs as root.
// It refuses a file if users other than root and this process's user can change it or a directory
// above it. It follows symbolic links.
func ReadTrusted(path string, limit int64) ([]byte, error) { return paths{}.read(path, limit) }

// read returns the content of a file of at most limit bytes.
func (p paths) read(path string, limit int64) ([]byte, error) {
	f, err := p.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// CheckProgram returns why a hook's program must not run. It returns nil if the file exists, only
// root can change it, and its checksum is the registered one. The host makes the same checks each
// time it starts the program.
func (r *Registry) CheckProgram(h Hook) error {
	if h.Program == "" {
		return fmt.Errorf("hook %s: no program was imported", h.Name)
	}
	f, err := r.paths().openSummed(h.Program, h.SHA256)
	if err != nil {
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	return f.Close()
}
