package mom

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// TmpDir is the directory for the TMPDIRs of jobs that `run` begins, the same as pbs_mom's.
const TmpDir = "/var/tmp"

// Left is a directory that Run created as the TMPDIR of a job and did not remove, because Run was
// killed or had no time. It may also be a file of another user with such a name.
type Left struct {
	Dir, Name, Job string
	UID            int // of the job's owner
}

// LeftIn returns what may be directories in tmpDir left by the jobs in owners, which has the
// owners' uids. For a job without one it returns the name that PBS gives it. It looks at names
// only, since a file system that a user has mounted there may not answer.
func LeftIn(tmpDir string, owners map[string]int) ([]Left, error) {
	files, err := os.ReadDir(tmpDir)
	if err != nil {
		return nil, err
	}
	var all []Left
	without := maps.Clone(owners)
	for _, f := range files {
		job, ok := strings.CutPrefix(f.Name(), tmpName(""))
		if !ok {
			continue
		}
		uid, ok := owners[job]
		if !ok {
			job = unknowable.ReplaceAllString(job, "")
			if uid, ok = owners[job]; !ok {
				continue
			}
		}
		all = append(all, Left{tmpDir, f.Name(), job, uid})
		delete(without, job)
	}
	for job, uid := range without {
		all = append(all, Left{tmpDir, tmpName(job), job, uid})
	}
	return all, nil
}

// isOwners reports whether the directory exists and belongs to the job's owner.
func (l Left) isOwners() (bool, error) {
	var st unix.Stat_t
	path := filepath.Join(l.Dir, l.Name)
	err := unix.Lstat(path, &st)
	if err != nil && err != unix.ENOENT {
		return false, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return err == nil && int(st.Uid) == l.UID, nil
}

// Remove removes the directory with everything in it, until ctx ends; a further call removes the
// rest. The name is free at once, since a later run of the job may use it. A file of another user
// stays. Remove may hang if the owner has mounted a file system there. Idempotent.
func (l Left) Remove(ctx context.Context) error {
	if is, err := l.isOwners(); !is {
		return err
	}
	if free := freeName(l.Name); free != l.Name {
		err := unix.Rename(filepath.Join(l.Dir, l.Name), filepath.Join(l.Dir, free))
		if err != nil && err != unix.ENOENT {
			return &os.LinkError{Op: "rename", Old: filepath.Join(l.Dir, l.Name), New: free, Err: err}
		}
		l.Name = free
	}
	return removeTree(ctx, l.Dir, l.Name)
}

// unknowable matches the unpredictable end of a TMPDIR's name.
var unknowable = regexp.MustCompile(`\.[a-z2-7]{26}$`)

// freeName returns the name of a TMPDIR with an unpredictable end.
func freeName(name string) string {
	if unknowable.MatchString(name) {
		return name
	}
	return unguessable(name)
}

func unguessable(name string) string { return name + "." + strings.ToLower(rand.Text()) }

// ownerMark is the extended attribute of a node file with the uid of its job's owner, if the file
// itself belongs to another user.
const ownerMark = "trusted.hookhost.owner"

// OwnerOf returns the uid of the owner of the job with a node file in auxDir.
func OwnerOf(id, auxDir string) (uid int, err error) {
	path := filepath.Join(auxDir, id)
	b := make([]byte, 16)
	n, err := unix.Getxattr(path, ownerMark, b)
	if err == nil {
		return strconv.Atoi(string(b[:n]))
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return int(st.Uid), nil
}

// RemoveNodefile removes the node file of a job in auxDir, unless its owner uid has a directory in
// tmpDir that the job may have left. A missing file is not an error.
//
// Another process may be removing that directory. Remove renames it first, and a list that is read
// meanwhile may have neither name. That happens once, so a second list has it.
func RemoveNodefile(id, auxDir, tmpDir string, uid int) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return err
	}
	for range 2 {
		left, err := LeftIn(tmpDir, map[string]int{id: uid})
		if err != nil {
			return err
		}
		for _, l := range left {
			if is, err := l.isOwners(); is || err != nil {
				return err
			}
		}
	}
	return removeFile(filepath.Join(auxDir, id))
}

// removeFile removes a file that may already be gone. A daemon that starts removes the files of
// jobs that are over.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tmpName is the name that PBS gives a job's TMPDIR.
func tmpName(id string) string { return "pbs." + id }

// makeNodefile writes PBS_NODEFILE, a line with the host's name for each process that MPI has to
// start, and returns its path.
func (w *walk) makeNodefile() (string, error) {
	chunks, err := pbs.Hostfile(w.job.ExecVnode, w.job.ExecHost2, w.job.Schedselect, w.spec.Node)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, c := range chunks {
		for range c.Slots {
			lines.WriteString(c.Host + "\n")
		}
	}
	if err := os.MkdirAll(w.spec.AuxDir, 0o711); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(w.spec.AuxDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := w.job.ID
	if err := root.WriteFile(name, []byte(lines.String()), 0o640); err != nil {
		return "", err
	}
	path := filepath.Join(w.spec.AuxDir, name)
	w.undo = append(w.undo, func(context.Context) error {
		if w.spec.TmpDir == "" {
			return removeFile(path)
		}
		return RemoveNodefile(name, w.spec.AuxDir, w.spec.TmpDir, w.uid())
	})
	gid := os.Getegid()
	if w.spec.Credential != nil {
		gid = int(w.spec.Credential.Gid)
		if err := unix.Setxattr(path, ownerMark, strconv.AppendInt(nil, int64(w.uid()), 10), 0); err != nil {
			return "", &fs.PathError{Op: "setxattr", Path: path, Err: err}
		}
	}
	// The job's user must be able to read it, whatever the umask, but must not be able to fill /run
	// with it.
	return path, errors.Join(root.Chown(name, -1, gid), root.Chmod(name, 0o640))
}

// makeTmpDir makes the job's TMPDIR, named as PBS names it, and returns its path. An existing
// directory is used if it belongs to the job's user: then nobody else could profit from making it.
// Any user can create another file of that name for a future job. The TMPDIR then gets an
// unpredictable name.
func (w *walk) makeTmpDir() (string, error) {
	root, err := os.OpenRoot(w.spec.TmpDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := tmpName(w.job.ID)
	err = root.Mkdir(name, 0o700)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		if err = w.checkDir(root, name); err != nil {
			name = unguessable(name)
			err = root.Mkdir(name, 0o700)
			made = err == nil
		}
	}
	if made {
		err = w.giveDir(root, name)
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.spec.TmpDir, name)
	w.undo = append(w.undo, Left{w.spec.TmpDir, name, w.job.ID, w.uid()}.Remove)
	return path, nil
}

func (w *walk) checkDir(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != w.uid() {
		return fmt.Errorf("mkdir %s: it exists and is not a directory of uid %d", filepath.Join(root.Name(), name),
			w.uid())
	}
	return nil
}

// giveDir changes the owner of a new directory to the job's user. It uses a descriptor, because a
// name can be changed.
func (w *walk) giveDir(root *os.Root, name string) error {
	if w.spec.Credential == nil {
		return nil
	}
	dir, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == nil {
		err = dir.Chown(int(w.spec.Credential.Uid), int(w.spec.Credential.Gid))
		dir.Close()
	}
	if err != nil {
		root.Remove(name)
	}
	return err
}

// uid returns the uid of the program's user.
func (w *walk) uid() int {
	if w.spec.Credential != nil {
		return int(w.spec.Credential.Uid)
	}
	return os.Geteuid()
}
