package config

import "github.com/hookhost/hookhost/internal/pbs"

// Private configures hook private.
type Private struct {
	TMP     bool     `toml:"tmp" json:"tmp"`
	TMPSize pbs.Size `toml:"tmp_size" json:"tmp_size"`
}

// check returns an error for the first invalid value, with its key.
func (p Private) check() error {
	return firstBroken(rule{"private.tmp_size", p.TMPSize, p.TMPSize == 0 || p.TMPSize >= 1<<20,
		"0kb for half of the node's memory, or 1mb or more"})
}
