package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Private configures hook private.
type Private struct {
	TMP        bool     `toml:"tmp" json:"tmp"`
	TMPSize    pbs.Size `toml:"tmp_size" json:"tmp_size"`
	RuntimeDir bool     `toml:"runtime_dir" json:"runtime_dir"`
	CleanDirs  []string `toml:"clean_dirs" json:"clean_dirs"`
	CleanIPC   bool     `toml:"clean_ipc" json:"clean_ipc"`

	Dirs []PrivateDir `toml:"dirs,inline" json:"dirs"`
}

// PrivateDir is a directory that each job has for itself.
type PrivateDir struct {
	Path string `toml:"path" json:"path"`
	Base string `toml:"base,omitempty" json:"base,omitempty"` // a directory on disk; "" means tmpfs
	// Of a tmpfs: its size, and further options of mount.
	Size    pbs.Size `toml:"size,omitempty" json:"size,omitempty"`
	Options string   `toml:"options,omitempty" json:"options,omitempty"`
}

// SharedMemory is the directory of POSIX shared memory. A job requests its size by the resource
// SharedMemorySize.
const (
	SharedMemory     = "/dev/shm"
	SharedMemorySize = "shm_size"
)

// HasSharedMemory reports whether each job has a tmpfs as /dev/shm for itself.
func (p Private) HasSharedMemory() bool {
	return slices.ContainsFunc(p.Dirs, func(d PrivateDir) bool { return d.Path == SharedMemory && d.Base == "" })
}

// IsOn reports whether anything is demanded.
func (p Private) IsOn() bool { return p.TMP || p.RuntimeDir || len(p.Dirs) > 0 || p.Cleans() }

// Cleans reports whether anything that jobs leave is removed.
func (p Private) Cleans() bool { return len(p.CleanDirs) > 0 || p.CleanIPC }

var tmpfsOptions = regexp.MustCompile(`^((noexec|huge=[a-z_]+|nr_inodes=[0-9]+[kmg]?|mpol=[a-z0-9:=-]+)(,|$))*$`)

// isBelowRoot reports whether a path is absolute, as short as possible, and not the root.
func isBelowRoot(name string) bool {
	return path.IsAbs(name) && path.Clean(name) == name && name != "/"
}

// Contains reports whether name is the directory, or is below it.
func (d PrivateDir) Contains(name string) bool {
	return name == d.Path || strings.HasPrefix(name, d.Path+"/")
}

// check returns an error for the first invalid value, with its key.
func (p Private) check() error {
	rules := []rule{{"private.tmp_size", p.TMPSize, p.TMPSize == 0 || p.TMPSize >= 1<<20,
		"0kb for half of the node's memory, or 1mb or more"}}
	for _, dir := range p.CleanDirs {
		rules = append(rules, rule{"private.clean_dirs", dir, isBelowRoot(dir),
			"directories that everybody may write to, such as /tmp: absolute paths without / at the end"})
	}
	for i, d := range p.Dirs {
		rules = append(rules, rule{"private.dirs: path", d.Path, isBelowRoot(d.Path),
			"a directory that everybody may write to, such as /tmp: an absolute path without / at its end"},
			rule{"private.dirs: base", d.Base, d.Base == "" || isBelowRoot(d.Base),
				"an absolute path in its shortest form"},
			rule{"private.dirs: size", d.Size, d.Size == 0 || d.Size >= 1<<20 && d.Base == "",
				"1mb or more, without base"},
			rule{"private.dirs: options", d.Options,
				d.Options == "" || d.Base == "" && tmpfsOptions.MatchString(d.Options), "some of noexec, " +
					"huge=WHEN, nr_inodes=N, mpol=POLICY, separated by commas, without base"})
		for j, other := range p.Dirs {
			rules = append(rules, rule{"private.dirs: path", d.Path, i == j || !other.Contains(d.Path),
				"a directory that is not in another one of dirs"},
				rule{"private.dirs: base", d.Base, !other.Contains(d.Base), "a directory outside of dirs"})
		}
	}
	return firstBroken(rules...)
}
