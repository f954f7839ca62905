package devfilter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/devrule"
)

// attached is one of our programs on a cgroup.
type attached struct {
	*ebpf.Program
	id   ebpf.ProgramID
	info *ebpf.ProgramInfo
}

type programs []attached

func (ps programs) close() {
	for _, p := range ps {
		p.Close()
	}
}

// are reports whether ps is exactly the program of s. The kernel calculates a tag from the
// instructions as they were loaded. Its 64 bits are enough, since nobody chooses rules to cause a
// collision.
func (ps programs) are(s *ebpf.ProgramSpec) bool {
	return len(ps) == 1 && s.Compatible(ps[0].info) == nil
}

// ours returns our programs on the cgroup dir. Only the names of other programs are read.
func ours(dir *os.File) (_ programs, err error) {
	q, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return nil, fmt.Errorf("query device filters of %s: %w", dir.Name(), err)
	}
	var list programs
	defer func() {
		if err != nil {
			list.close()
		}
	}()
	for _, a := range q.Programs {
		p, err := ebpf.NewProgramFromID(a.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its owner has just detached it
		}
		if err != nil {
			return nil, fmt.Errorf("open device filter %d of %s: %w", a.ID, dir.Name(), err)
		}
		info, err := p.Info()
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("read device filter %d of %s: %w", a.ID, dir.Name(), err)
		}
		if info.Name != programName {
			p.Close()
			continue
		}
		list = append(list, attached{p, a.ID, info})
	}
	return list, nil
}

// installV2 attaches the program for rules. It does not use a bpf_link, which would disappear with
// its last descriptor. replace is false in tests of what happens on kernels before 5.6.
func installV2(path string, rules []devrule.Rule, replace bool) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	before, err := ours(dir)
	if err != nil {
		return err
	}
	defer before.close()
	insns := Compile(rules)
	if before.are(spec(insns)) {
		return nil
	}
	p, err := load(insns)
	if err != nil {
		return err
	}
	defer p.Close()
	id, err := identify(p)
	if err != nil {
		return err
	}
	extra, err := attach(dir, p, before, replace)
	if err != nil {
		return fmt.Errorf("attach device filter to %s: %w", path, err)
	}
	// Only now: until here each of them was also in force, and all had to allow a device.
	if err := detach(dir, extra); err != nil {
		return err
	}
	return readBack(dir, id)
}

// identify returns the id of a program that was just loaded. It fails if the program did not get
// its name, because it would never be found again once attached. cilium/ebpf leaves out names if it
// believes that the kernel does not support them.
func identify(p *ebpf.Program) (ebpf.ProgramID, error) {
	info, err := p.Info()
	if err != nil {
		return 0, fmt.Errorf("read new device filter: %w", err)
	}
	if info.Name != programName {
		return 0, fmt.Errorf("load device filter: the kernel calls it %q, not %q", info.Name, programName)
	}
	id, ok := info.ID()
	if !ok {
		return 0, errors.New("load device filter: the kernel tells no id")
	}
	return id, nil
}

// attach attaches p, and replaces one of before if the kernel can do that in one step. It returns
// the programs that are also still in force.
func attach(dir *os.File, p *ebpf.Program, before programs, replace bool) (extra programs, err error) {
	options := link.RawAttachProgramOptions{
		Target:  int(dir.Fd()),
		Program: p,
		Attach:  ebpf.AttachCGroupDevice,
		Flags:   unix.BPF_F_ALLOW_MULTI,
	}
	if len(before) > 0 && replace {
		options.Anchor = link.ReplaceProgram(before[0].Program)
		err := link.RawAttachProgram(options)
		if !errors.Is(err, unix.EINVAL) {
			return before[1:], err
		}
		options.Anchor = nil // the kernel does not support BPF_F_REPLACE
	}
	return before, link.RawAttachProgram(options)
}

func detach(dir *os.File, extra programs) error {
	var errs []error
	for _, p := range extra {
		err := link.RawDetachProgram(link.RawDetachProgramOptions{
			Target: int(dir.Fd()), Program: p.Program, Attach: ebpf.AttachCGroupDevice,
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("detach device filter %d from %s: %w", p.id, dir.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// readBack fails unless the program id is attached and is our only one.
func readBack(dir *os.File, id ebpf.ProgramID) error {
	now, err := ours(dir)
	if err != nil {
		return err
	}
	defer now.close()
	if len(now) != 1 || now[0].id != id {
		return fmt.Errorf("device filter of %s: attached %d, found %v", dir.Name(), id, now.ids())
	}
	return nil
}

func (ps programs) ids() []ebpf.ProgramID {
	ids := make([]ebpf.ProgramID, len(ps))
	for i, p := range ps {
		ids[i] = p.id
	}
	return ids
}

func inForceV2(path string, rules []devrule.Rule) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	now, err := ours(dir)
	if err != nil {
		return err
	}
	defer now.close()
	switch {
	case len(now) == 0:
		return fmt.Errorf("device filter of %s: there is none", path)
	case len(now) > 1:
		return fmt.Errorf("device filter of %s: there are %d, programs %v", path, len(now), now.ids())
	case !now.are(spec(Compile(rules))):
		return fmt.Errorf("device filter of %s: program %d is of other rules", path, now[0].id)
	}
	return nil
}
