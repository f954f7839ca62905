package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// signatureFormat is changed when Scan would make something else of the same machine.
const signatureFormat = 1

// gpuDrivers are the modules of which Scan finds devices.
var gpuDrivers = []string{"nvidia", "amdgpu", "i915", "xe", "habanalabs"}

// Signature returns what Scan's result depends on. The signature is of the boot, the options, the
// drivers and their devices, the MIG instances, and the nodes of configured devices. A scan would
// find the same while it stays the same, with exceptions that only a scan can see. A source that
// failed may answer now. The kernel shows neither a MIG instance that was replaced by another with
// the same numbers, nor NVML's library that was installed meanwhile.
//
// Signature reads some directories and small files, none of which asks a device, and takes about a
// millisecond.
func Signature(roots kernfs.Roots, o Options) (string, error) {
	s := signature{roots: roots}
	s.add("format", fmt.Sprint(signatureFormat))
	s.file(roots.Proc, "sys/kernel/random/boot_id")
	options, err := json.Marshal(struct {
		GPUs    bool
		NVML    string
		Devices []Configured
	}{o.GPUs, o.NVML, o.Devices})
	s.errs = append(s.errs, err)
	s.add("options", string(options))
	if o.GPUs {
		s.gpus()
	}
	s.configured(o)
	if err := errors.Join(s.errs...); err != nil {
		return "", fmt.Errorf("signature of the devices: %w", err)
	}
	sum := sha256.Sum256([]byte(s.text.String()))
	return hex.EncodeToString(sum[:]), nil
}

type signature struct {
	roots kernfs.Roots
	text  strings.Builder
	errs  []error
}

func (s *signature) add(what string, values ...string) { fmt.Fprintf(&s.text, "%s %q\n", what, values) }

// file adds the text of a file; one that is not there is as good as an empty one.
func (s *signature) file(f *kernfs.FS, name string) {
	b, err := f.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b = []byte(err.Error()) // Scan says what it means
	}
	s.add(name, string(b))
}

// dir adds the names in a directory, of those that want is true of, and returns them.
func (s *signature) dir(f *kernfs.FS, name string, want func(string) bool) []string {
	list, err := names(f, name)
	if err != nil {
		s.errs = append(s.errs, err)
	}
	var kept []string
	for _, n := range list {
		if want(n) {
			kept = append(kept, n)
		}
	}
	s.add(name, kept...)
	return kept
}

func (s *signature) gpus() {
	proc, sys := s.roots.Proc, s.roots.Sys
	isAddress := func(n string) bool { _, ok := pciAddress(n); return ok }
	for _, driver := range gpuDrivers {
		s.file(sys, "module/"+driver+"/srcversion")
		s.dir(sys, "bus/pci/drivers/"+driver, isAddress)
	}
	for _, class := range []string{"drm", "accel", "habanalabs"} {
		// card0-DP-1 is a connector
		s.dir(sys, "class/"+class, func(n string) bool { return !strings.Contains(n, "-") })
	}
	s.file(sys, "class/kfd/kfd/topology/generation_id")
	s.dir(sys, kfdNodes, func(string) bool { return true })

	s.file(proc, nvidiaDir+"/version")
	s.dir(proc, nvidiaGPUs, isAddress)
	starts := func(prefix string) func(string) bool {
		return func(n string) bool { return strings.HasPrefix(n, prefix) }
	}
	for _, gpu := range s.dir(proc, migCapabilities, starts("gpu")) {
		dir := migCapabilities + "/" + gpu + "/mig"
		for _, gi := range s.dir(proc, dir, starts("gi")) {
			s.dir(proc, dir+"/"+gi, starts("ci"))
		}
	}
	// The major of nvidia-uvm is not there before its module is, and another after each boot.
	majors, err := charMajors(proc)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.errs = append(s.errs, err)
	}
	for _, name := range []string{"nvidia", "nvidia-frontend", "nvidia-uvm", "nvidia-caps", "gdrdrv"} {
		if m, ok := majors[name]; ok {
			s.add(name, fmt.Sprint(m))
		}
	}
}

func (s *signature) configured(o Options) {
	for _, c := range o.Devices {
		for _, pattern := range c.Paths {
			matches, err := o.Glob(pattern)
			if err != nil {
				s.add(pattern, err.Error()) // Scan says what it means
			}
			for _, path := range matches {
				node, err := o.Node(path)
				s.add(path, node.String(), fmt.Sprint(err))
			}
		}
	}
}
