package nodestate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/internal/disk"
)

// Vntype is the file mom_priv/vntype of pbs_mom's home: its first line is
// resources_available.vntype of this host's natural vnode.
//
// The file is the one place where a node has its vntype. An administrator writes it, or whoever
// finds a vntype in MoM's vnode_list and no file. MoM itself does not read it, and knows nothing of
// a vntype that qmgr has set (openpbs pbs_cgroups.PY, _get_vnode_type).
type Vntype string

const maxVntype = 256 // bytes; PBS's names are shorter

// VntypeOf returns the file of a home.
func VntypeOf(home string) Vntype { return Vntype(filepath.Join(home, "mom_priv", "vntype")) }

// Read returns the vntype, "" where the file is empty. An absent file is fs.ErrNotExist. A first
// line that is no vntype is an error.
func (f Vntype) Read() (string, error) {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	v := strings.TrimSpace(line)
	if err := checkVntype(v); v != "" && err != nil {
		return "", fmt.Errorf("read %s: %w", f, err)
	}
	return v, nil
}

// Write gives the file a vntype. Others than root may read it, as the one that the stock hook
// writes.
func (f Vntype) Write(v string) error {
	if err := checkVntype(v); err != nil {
		return err
	}
	return disk.Replace(string(f), []byte(v+"\n"), 0o644)
}

// checkVntype refuses what cannot be a vntype: an empty or endless one and control characters.
func checkVntype(v string) error {
	if v == "" || len(v) > maxVntype || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		if len(v) > 40 {
			v = v[:40] + "..."
		}
		return fmt.Errorf("vntype %q: want one line of 1 to %d bytes", v, maxVntype)
	}
	return nil
}
