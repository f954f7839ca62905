package kernfstest

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// tree is a read-only backend of fixed files and links. Directories exist where files need them.
type tree struct {
	files map[string]string
	links map[string]string // path -> target, relative to the directory of the link
}

// maxLinks is MAXSYMLINKS.
const maxLinks = 40

// resolve follows the links in name. A link that leads out of the tree is EXDEV, as with openat2.
func (t tree) resolve(name string) (string, error) {
	for range maxLinks {
		at := ""
		followed := false
		for part := range strings.SplitSeq(name, "/") {
			at = path.Join(at, part)
			target, ok := t.links[at]
			if !ok {
				continue
			}
			to := path.Join(path.Dir(at), target)
			if path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
				return "", unix.EXDEV
			}
			name, followed = path.Join(to, strings.TrimPrefix(strings.TrimPrefix(name, at), "/")), true
			break
		}
		if !followed {
			return name, nil
		}
	}
	return "", unix.ELOOP
}

// OpenFile opens a file or a directory.
func (t tree) OpenFile(name string, flag int) (kernfs.File, error) {
	name, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	if text, ok := t.files[name]; ok {
		if flag&(unix.O_WRONLY|unix.O_RDWR) != 0 {
			return nil, unix.EACCES
		}
		return &textFile{Reader: strings.NewReader(text)}, nil
	}
	entries := t.list(name)
	if entries == nil && name != "." {
		return nil, unix.ENOENT
	}
	return &dir{entries: entries}, nil
}

func (t tree) list(name string) []fs.DirEntry {
	seen := map[string]fs.FileMode{}
	add := func(p string, mode fs.FileMode) {
		rest := p
		if name != "." {
			var ok bool
			if rest, ok = strings.CutPrefix(p, name+"/"); !ok {
				return
			}
		}
		first, _, deeper := strings.Cut(rest, "/")
		if deeper {
			mode = fs.ModeDir
		}
		seen[first] = mode
	}
	for p := range t.files {
		add(p, 0)
	}
	for p := range t.links {
		add(p, fs.ModeSymlink)
	}
	var list []fs.DirEntry
	for n, mode := range seen {
		list = append(list, entry{n, mode})
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

func (tree) Mkdir(string, fs.FileMode) error { return unix.EPERM } // as sysfs and procfs answer
func (tree) Rmdir(string) error              { return unix.EPERM }

// textFile is an open file of a tree.
type textFile struct{ io.Reader }

func (*textFile) Write([]byte) (int, error)          { return 0, unix.EBADF }
func (*textFile) ReadDir(int) ([]fs.DirEntry, error) { return nil, unix.ENOTDIR }
func (*textFile) Close() error                       { return nil }
func (*textFile) Fd() uintptr                        { return ^uintptr(0) }
