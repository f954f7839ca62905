package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// The DCGM exporter labels a GPU's metrics with the job (hpc_job) that it finds in its job mapping
// directory. The directory has one file per GPU, named by its index, or by GPU.INSTANCE for a MIG
// instance. Each line of a file is a job id. Before dcgm-exporter PR #730, a duplicate id made the
// exporter's whole answer invalid.

// mappingDir is that directory, or empty if none is used. Changes are made under a lock on a file
// of the state directory. Only root can open that file, since anyone who can open a file can lock
// it indefinitely.
type mappingDir struct{ dir, lock string }

// newMappingDir returns the directory dir, or none if there is no state directory.
func newMappingDir(dir, stateDir string) mappingDir {
	if dir == "" || stateDir == "" {
		return mappingDir{}
	}
	return mappingDir{dir, filepath.Join(stateDir, "dcgm.lock")}
}

// mappingPatience limits the wait for the lock. The lock is usually held for milliseconds, and
// these files are only labels.
const mappingPatience = 5 * time.Second

var mappingName = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// mappingFiles returns the names of the files for a grant's devices.
func mappingFiles(g *inventory.Grant) []string {
	var list []string
	if g == nil {
		return nil
	}
	for _, d := range byVendor(g, "nvidia") {
		if name := mappingFile(d); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// mappingFile returns the name of a device's file: nvidia-smi's number of the GPU, followed by the
// GPU instance for a MIG instance.
func mappingFile(d topology.Device) string {
	name := strconv.Itoa(d.Index)
	if d.Parent == "" {
		return name
	}
	gi, _, ok := strings.Cut(d.Instance, ".")
	if !ok {
		return ""
	}
	return name + "." + gi
}

// write puts the job into the files of its devices and removes it from all others. It is
// idempotent.
func (m mappingDir) write(ctx context.Context, id string, g *inventory.Grant) error {
	return m.change(ctx, func(there []string) error {
		want := mappingFiles(g)
		var errs []error
		for _, name := range unique(append(slices.Clone(there), want...)) {
			errs = append(errs, m.edit(name, func(ids []string) []string {
				ids = slices.DeleteFunc(ids, func(line string) bool { return line == id })
				if slices.Contains(want, name) {
					ids = append(ids, id)
				}
				return ids
			}))
		}
		return errors.Join(errs...)
	})
}

// remove removes the job from all files. It is idempotent.
func (m mappingDir) remove(ctx context.Context, id string) error { return m.write(ctx, id, nil) }

// sweep removes every job that is not alive. It calls alive under the lock, because any job that is
// in a file by then has a cgroup.
func (m mappingDir) sweep(ctx context.Context, alive func() (map[string]bool, error)) error {
	return m.change(ctx, func(there []string) error {
		jobs, err := alive()
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range there {
			errs = append(errs, m.edit(name, func(ids []string) []string {
				return slices.DeleteFunc(ids, func(line string) bool {
					return hostapi.CheckJobID(line) == nil && !jobs[line]
				})
			}))
		}
		return errors.Join(errs...)
	})
}

// change calls do under the lock, with the names of the existing files.
func (m mappingDir) change(ctx context.Context, do func(there []string) error) error {
	if m.dir == "" {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return fmt.Errorf("job mapping: %w", err)
	}
	unlock, err := m.locked(ctx)
	if err != nil {
		return fmt.Errorf("job mapping: lock %s: %w", m.lock, err)
	}
	defer unlock()
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("job mapping: %w", err)
	}
	var names []string
	for _, e := range entries {
		if mappingName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if err := do(names); err != nil {
		return fmt.Errorf("job mapping: %w", err)
	}
	return nil
}

// locked locks the directory.
func (m mappingDir) locked(ctx context.Context) (unlock func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, mappingPatience)
	defer cancel()
	f, err := os.OpenFile(m.lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := disk.Lock(ctx, int(f.Fd())); err != nil {
		return nil, errors.Join(fmt.Errorf("it is held: %w", err), f.Close())
	}
	return f.Close, nil
}

// edit changes the list in a file, and removes the file if the list becomes empty.
func (m mappingDir) edit(name string, change func([]string) []string) error {
	file := filepath.Join(m.dir, name)
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var before []string
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			before = append(before, line)
		}
	}
	after := unique(change(slices.Clone(before)))
	switch {
	case slices.Equal(before, after):
		return nil
	case len(after) == 0:
		return os.Remove(file)
	}
	return disk.ReplaceUnsynced(file, []byte(strings.Join(after, "\n")+"\n"), 0o644)
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
