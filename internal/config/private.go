package config

import (
	"path"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Private configures hook private.
type Private struct {
	TMP        bool     `toml:"tmp" json:"tmp"`
	TMPSize    pbs.Size `toml:"tmp_size" json:"tmp_size"`
	RuntimeDir bool     `toml:"runtime_dir" json:"runtime_dir"`
	CleanDirs  []string `toml:"clean_dirs" json:"clean_dirs"`
	CleanIPC   bool     `toml:"clean_ipc" json:"clean_ipc"`
}

// IsOn reports whether anything is demanded.
func (p Private) IsOn() bool { return p.TMP || p.RuntimeDir || p.Cleans() }

// Cleans reports whether anything that jobs leave is removed.
func (p Private) Cleans() bool { return len(p.CleanDirs) > 0 || p.CleanIPC }

// check returns an error for the first invalid value, with its key.
func (p Private) check() error {
	rules := []rule{{"private.tmp_size", p.TMPSize, p.TMPSize == 0 || p.TMPSize >= 1<<20,
		"0kb for half of the node's memory, or 1mb or more"}}
	for _, dir := range p.CleanDirs {
		clean := path.IsAbs(dir) && path.Clean(dir) == dir
		rules = append(rules, rule{"private.clean_dirs", dir, clean && dir != "/",
			"clean absolute paths of directories that everybody may write to, such as /tmp"})
	}
	return firstBroken(rules...)
}
