package mom

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// TmpDir is the directory of the TMPDIRs of jobs that `run` begins, as pbs_mom has it.
const TmpDir = "/var/tmp"

// RemoveDirs removes what Run made for a job and could not remove because its process was killed.
// These are the node file in auxDir and the job's TMPDIR in tmpDir. Files that are not there are no
// error.
func RemoveDirs(id, auxDir, tmpDir string) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return err
	}
	root, err := os.OpenRoot(tmpDir)
	if err == nil {
		err = errors.Join(root.RemoveAll(tmpName(id)), root.Close())
	}
	return errors.Join(err, removeFile(filepath.Join(auxDir, id)))
}

// removeFile removes a file that somebody else may have removed. A daemon that starts removes the
// files of jobs that are over.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tmpName is the name that PBS gives a job's TMPDIR.
func tmpName(id string) string { return "pbs." + id }

// makeNodefile writes PBS_NODEFILE, a line with the host's name for each process that MPI is to
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
	if err := os.MkdirAll(w.spec.AuxDir, 0o755); err != nil {
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
	w.undo = append(w.undo, func() error { return removeFile(path) })
	gid := os.Getegid()
	if w.spec.Credential != nil {
		gid = int(w.spec.Credential.Gid)
	}
	// The job's user is to read it, whatever the umask, and not to fill /run with it.
	return path, errors.Join(root.Chown(name, -1, gid), root.Chmod(name, 0o640))
}

// makeTmpDir makes the job's TMPDIR, named as PBS names it, and returns its path. A directory that
// is there already is used when it belongs to the job's user: then nobody else gained anything by
// making it. Any user can make something else of that name for a job to come. The TMPDIR then has a
// name that nobody can know.
func (w *walk) makeTmpDir() (string, error) {
	root, err := os.OpenRoot(w.spec.TmpDir)
	if err != nil {
		return "", err
	}
	w.undo = append(w.undo, root.Close)
	name := tmpName(w.job.ID)
	err = root.Mkdir(name, 0o700)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		if err = w.ownsDir(root, name); err != nil {
			name += "." + strings.ToLower(rand.Text())
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
	// RemoveAll of a Root neither follows links nor leaves the directory, whatever the job's
	// processes left there.
	w.undo = append(w.undo, func() error { return root.RemoveAll(name) })
	return path, nil
}

func (w *walk) ownsDir(root *os.Root, name string) error {
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

// giveDir gives a directory that was just made to the job's user, through a descriptor: a name can
// be changed.
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

// uid returns who the program runs as.
func (w *walk) uid() int {
	if w.spec.Credential != nil {
		return int(w.spec.Credential.Uid)
	}
	return os.Geteuid()
}
