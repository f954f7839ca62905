package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/pbs"
)

// hostfilePrefix precedes the job's id in the name of its host file, so that the name cannot be a
// job id. PBS_NODEFILE of `hookhost run` is in the same directory and is named by the id.
const hostfilePrefix = "openmpi."

func hostfileName(id string) (string, error) {
	if err := hostapi.CheckJobID(id); err != nil {
		return "", err
	}
	return hostfilePrefix + id, nil
}

// hostfile returns the job's hosts in Open MPI's format: a line for each host, in the job's order.
// PBS_NODEFILE cannot be used, because Open MPI gives a host that is listed once as many slots as
// it has cores. The result is "" for a job without slots.
func hostfile(job *hostapi.Job, node string) (string, error) {
	chunks, err := pbs.Hostfile(job.ExecVnode, job.ExecHost2, job.Schedselect, node)
	if err != nil {
		return "", err
	}
	slots := map[string]int{}
	var hosts []string
	for _, c := range chunks {
		if _, seen := slots[c.Host]; !seen {
			hosts = append(hosts, c.Host)
		}
		slots[c.Host] += c.Slots
	}
	var b strings.Builder
	for _, host := range hosts {
		if n := slots[host]; n > 0 {
			fmt.Fprintf(&b, "%s slots=%d\n", host, n)
		}
	}
	return b.String(), nil
}

// writeHostfile writes the job's host file into dir, readable for the job's group, and returns its
// path, or "" for a job without slots. It is idempotent. No reader sees an incomplete file, or one
// of another group.
func writeHostfile(dir string, job *hostapi.Job, node string) (string, error) {
	name, err := hostfileName(job.ID)
	if err != nil {
		return "", err
	}
	text, err := hostfile(job, node)
	if err != nil || text == "" {
		return "", err
	}
	if err := disk.MakeDir(dir, 0o711); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if err := disk.ReplaceForGroup(path, []byte(text), 0o640, job.Owner.GID); err != nil {
		return "", err
	}
	return path, nil
}

// removeHostfile removes the job's host file, which may not exist.
func removeHostfile(dir, id string) error {
	name, err := hostfileName(id)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes unfinished files and the host files of jobs that are not in the list, if they are
// at least that old. A job may have begun since the list was made.
func sweep(dir string, jobs map[string]*hostapi.Job, old time.Duration) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err, disk.RemoveUnfinished(dir, old)}
	for _, f := range files {
		id, ours := strings.CutPrefix(f.Name(), hostfilePrefix)
		_, lives := jobs[id]
		if !ours || lives {
			continue
		}
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) >= old {
			errs = append(errs, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	return errors.Join(errs...)
}
