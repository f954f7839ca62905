package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Rlimits configures the resource limits of a job's processes, by their names in getrlimit(2).
type Rlimits struct {
	Core    string `toml:"core" json:"core"`
	Data    string `toml:"data" json:"data"`
	Fsize   string `toml:"fsize" json:"fsize"`
	Memlock string `toml:"memlock" json:"memlock"`
	Nofile  string `toml:"nofile" json:"nofile"`
	Nproc   string `toml:"nproc" json:"nproc"`
	Stack   string `toml:"stack" json:"stack"`
}

// ParseRlimit parses a resource limit of [rlimits] or of -l rlimit_nofile= and the like: SOFT:HARD,
// or one value for both. Each is a whole number in the unit of getrlimit(2) or "unlimited"
// (RLIM_INFINITY). It fails if the soft limit is above the hard one.
func ParseRlimit(text string) (soft, hard uint64, err error) {
	low, high, two := strings.Cut(text, ":")
	if !two {
		high = low
	}
	for _, part := range []struct {
		text string
		to   *uint64
	}{{low, &soft}, {high, &hard}} {
		if part.text == "unlimited" {
			*part.to = math.MaxUint64
			continue
		}
		// The kernel would take a value above MaxInt64 for no limit, so it is a mistake.
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil || n < 0 || part.text[0] == '+' {
			return 0, 0, fmt.Errorf("rlimit %q: want SOFT or SOFT:HARD, each a whole number or unlimited", text)
		}
		*part.to = uint64(n)
	}
	if soft > hard {
		return 0, 0, fmt.Errorf("rlimit %q: the soft limit is above the hard one", text)
	}
	return soft, hard, nil
}

// ByName returns the configured limits by name; "" leaves a limit unchanged.
func (r Rlimits) ByName() map[string]string {
	return map[string]string{
		"core": r.Core, "data": r.Data, "fsize": r.Fsize, "memlock": r.Memlock, "nofile": r.Nofile,
		"nproc": r.Nproc, "stack": r.Stack,
	}
}

// rlimitNumber returns an error for a limit of [rlimits] that was written as a number, and says
// what to write instead. The decoder's own error is about types.
func rlimitNumber(b []byte) (err error) {
	walk(b, func(key []string, line int, value *unstable.Node) {
		if err != nil || value.Kind != unstable.Integer || len(key) != 2 || !strings.EqualFold(key[0], "rlimits") {
			return
		}
		if _, known := (Rlimits{}).ByName()[strings.ToLower(key[1])]; known {
			number := strings.ReplaceAll(string(value.Data), "_", "")
			err = fmt.Errorf("line %d: %s = %s: a limit is text, write %q",
				line, strings.Join(key, "."), value.Data, number)
		}
	})
	return err
}

// check returns an error for the first invalid limit, with its key.
func (r Rlimits) check() error {
	for name, text := range r.ByName() {
		if _, _, err := ParseRlimit(text); err != nil && text != "" {
			return fmt.Errorf("rlimits.%s = %q: %w", name, text, err)
		}
	}
	return nil
}
