package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// A job with devices has a CDI specification, with which container runtimes can pass on exactly
// these devices. The specification has the nodes that the filter opens and the variables of the
// job's programs, but no driver files. The job finds the name of its device in cdiVariable:
//
//	podman run --device "$HOOKHOST_CDI_DEVICE" ...

// cdiVariable contains the qualified name of the job's CDI device, hookhost.org/job=12.server.
const cdiVariable = "HOOKHOST_CDI_DEVICE"

const (
	cdiVendor = "hookhost.org"
	cdiClass  = "job"
	// cdiVersion is the first version in which a device's name may begin with a digit. Runtimes
	// reject versions newer than those they know.
	cdiVersion = "0.5.0"
)

// cdiName converts a job's id to the characters that CDI allows in a device name. These are
// letters, digits and "_-.:", with a letter or a digit at both ends. The names of two jobs always
// differ, because ids contain no colon.
func cdiName(id string) string {
	name := strings.NewReplacer("[", ":", "]", "").Replace(id)
	if strings.ContainsRune(":.-_", rune(name[len(name)-1])) {
		name += ":e"
	}
	return name
}

// cdiDevice returns the name under which container runtimes know the job's devices.
func cdiDevice(id string) string { return parser.QualifiedName(cdiVendor, cdiClass, cdiName(id)) }

// cdiSpec returns the specification of a job's devices. For there see variables. It fails if CDI
// would not accept it.
func cdiSpec(id string, g *inventory.Grant, there map[string]int) (*specs.Spec, error) {
	edits := specs.ContainerEdits{}
	for _, n := range grantNodes(g) {
		kind := "c"
		if n.Block {
			kind = "b"
		}
		edits.DeviceNodes = append(edits.DeviceNodes, &specs.DeviceNode{
			Path: n.Path, Type: kind, Major: int64(n.Major), Minor: int64(n.Minor), Permissions: "rw"})
	}
	env := variables(g, there)
	env["NVIDIA_VISIBLE_DEVICES"] = "void" // otherwise NVIDIA's container runtime could add more
	for _, name := range slices.Sorted(maps.Keys(env)) {
		edits.Env = append(edits.Env, name+"="+env[name])
	}
	spec := &specs.Spec{Version: cdiVersion, Kind: cdiVendor + "/" + cdiClass,
		Devices: []specs.Device{{Name: cdiName(id), ContainerEdits: edits}}}
	if err := errors.Join(specs.ValidateVersion(spec), parser.ValidateDeviceName(spec.Devices[0].Name)); err != nil {
		return nil, fmt.Errorf("CDI specification of job %s: %w", id, err)
	}
	return spec, nil
}

// grantNodes returns each node of a grant once, in order. Several devices may share a node, as MIG
// instances share the node of their GPU.
func grantNodes(g *inventory.Grant) []topology.DeviceNode {
	var list []topology.DeviceNode
	add := func(nodes []topology.DeviceNode) {
		for _, n := range nodes {
			if !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	if g == nil {
		return nil
	}
	for _, d := range g.Devices {
		add(d.Nodes)
	}
	add(g.Shared)
	return list
}

// cdiDir is the directory that container runtimes read, with the prefix of our file names in it. If
// dir is empty, no files are written.
type cdiDir struct{ dir, prefix string }

// newCDIDir uses the prefix of the jobs' cgroups to distinguish two instances of hookhost on one
// node, so that each sweeps only its own files.
func newCDIDir(dir, cgroupPrefix string) cdiDir {
	prefix := "hookhost-"
	if cgroupPrefix != defaultCgroupPrefix {
		prefix += cgroupPrefix + "-"
	}
	return cdiDir{dir, prefix}
}

const defaultCgroupPrefix = "pbs_jobs"

func (c cdiDir) file(id string) string {
	return filepath.Join(c.dir, c.prefix+cdiName(id)+".json")
}

// write creates or atomically replaces the job's file. If the job has no devices, it removes the
// file. A runtime never reads an incomplete file. For there see variables.
func (c cdiDir) write(id string, g *inventory.Grant, there map[string]int) error {
	if c.dir == "" {
		return nil
	}
	if g == nil || len(g.Devices) == 0 {
		return c.remove(id)
	}
	spec, err := cdiSpec(id, g, there)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("CDI specification of job %s: %w", id, err)
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("CDI specification of job %s: %w", id, err)
	}
	if err := disk.ReplaceUnsynced(c.file(id), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("CDI specification of job %s: %w", id, err)
	}
	return nil
}

// remove removes the job's file. It is idempotent.
func (c cdiDir) remove(id string) error {
	if c.dir == "" {
		return nil
	}
	// On a read-only mount unlink(2) says EROFS even if there is no such file.
	if _, err := os.Lstat(c.file(id)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(c.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("CDI specification of job %s: %w", id, err)
	}
	return nil
}

// files returns the files of our jobs. Callers must list these before they list the jobs, since a
// job's cgroup is older than its file.
func (c cdiDir) files() ([]string, error) {
	if c.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []string
	for _, e := range entries {
		job, ours := strings.CutPrefix(e.Name(), c.prefix)
		if ours && job != "" && job[0] >= '0' && job[0] <= '9' && strings.HasSuffix(job, ".json") {
			list = append(list, filepath.Join(c.dir, e.Name()))
		}
	}
	return list, err
}

// sweep removes those of the given files whose job is not in alive.
func (c cdiDir) sweep(files []string, alive map[string]bool) error {
	keep := map[string]bool{}
	for id := range alive {
		keep[c.file(id)] = true
	}
	var errs []error
	for _, name := range files {
		if keep[name] {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a CDI specification of no job: %w", err))
		}
	}
	return errors.Join(errs...)
}
