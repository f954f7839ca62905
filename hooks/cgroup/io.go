package main

import (
	"fmt"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
)

var ioResource = resource{
	decide: func(p *policy, got *assignment, _ host, _ []holding) error { got.limits.IO = p.io; return nil },
}

// resolveIO turns io.max of the configuration into limits by device number, with the numbers that
// the devices have now. It fails on a value that the kernel would refuse at each begin.
func (p *policy) resolveIO(sys *kernfs.FS) error {
	p.io = nil
	if !p.IO.Enabled {
		return nil
	}
	for _, text := range p.IO.Max {
		m, err := config.ParseIOMax(text)
		if err != nil {
			return fmt.Errorf("io.max: %w", err)
		}
		l := cgroup.IOLimit{Major: m.Major, Minor: m.Minor, ReadBytes: m.ReadBytes, WriteBytes: m.WriteBytes,
			ReadOps: m.ReadOps, WriteOps: m.WriteOps}
		if m.Path != "" {
			if l.Major, l.Minor, err = cgroup.BlockDevice(m.Path); err != nil {
				return fmt.Errorf("io.max %q: %w", text, err)
			}
		}
		if err := cgroup.WholeDisk(sys, l.Major, l.Minor); err != nil {
			return fmt.Errorf("io.max %q: %w", text, err)
		}
		for _, other := range p.io {
			if other.Major == l.Major && other.Minor == l.Minor {
				return fmt.Errorf("io.max %q: %d:%d has a limit already", text, l.Major, l.Minor)
			}
		}
		p.io = append(p.io, l)
	}
	return nil
}
