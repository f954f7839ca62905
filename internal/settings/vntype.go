package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/disk"
)

// Vntype is resources_available.vntype of this host's natural vnode, and the file that contains it:
// mom_priv/vntype of pbs_mom's home, in its first line.
//
// The file is the only place where a node has its vntype. An administrator writes it, or the
// daemon, if it finds a vntype in MoM's vnode_list and no file. MoM itself does not read it, and
// does not know a vntype that qmgr has set (openpbs pbs_cgroups.PY, _get_vnode_type).
type Vntype struct {
	Name  string // "" if none is known
	File  string // "" if pbs_mom has no home here
	There bool   // the file exists
	shut  bool   // only root may read it
}

const maxVntype = 256 // bytes; PBS's names are shorter

// ReadVntype reads the vntype. A file that is missing, or that this user may not read, is not an
// error.
func ReadVntype(cfg *config.OpenPBS) (Vntype, error) {
	home, err := cfg.MoMHome()
	if errors.Is(err, config.ErrNoMoM) {
		return Vntype{}, nil
	}
	if err != nil {
		return Vntype{}, fmt.Errorf("vntype: %w", err)
	}
	v := Vntype{File: filepath.Join(home, "mom_priv", "vntype")}
	b, err := os.ReadFile(v.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nil
	case errors.Is(err, fs.ErrPermission):
		v.shut = true
		return v, nil
	case err != nil:
		return v, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	name := strings.TrimSpace(line)
	if err := checkVntype(name); name != "" && err != nil {
		return v, fmt.Errorf("read %s: %w", v.File, err)
	}
	v.Name, v.There = name, true
	return v, nil
}

// Write writes a vntype to the file. Other users may read it, like the file that the stock hook
// writes.
func (v *Vntype) Write(name string) error {
	if err := checkVntype(name); err != nil {
		return err
	}
	if err := disk.Replace(v.File, []byte(name+"\n"), 0o644); err != nil {
		return err
	}
	v.Name, v.There = name, true
	return nil
}

// checkVntype refuses an invalid vntype: an empty or very long one, or one with control characters.
func checkVntype(v string) error {
	if v == "" || len(v) > maxVntype || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("vntype %.40q: want one line of 1 to %d bytes", v, maxVntype)
	}
	return nil
}

// String returns the vntype and its file, or why there is none.
func (v Vntype) String() string {
	switch {
	case v.Name != "":
		return fmt.Sprintf("%s, from %s", v.Name, v.File)
	case v.File == "":
		return "none: " + config.ErrNoMoM.Error()
	case v.shut:
		return fmt.Sprintf("not known: only root may read %s", v.File)
	case v.There:
		return fmt.Sprintf("none: %s is empty", v.File)
	}
	return fmt.Sprintf("none: there is no %s", v.File)
}

// Advice explains how the node can get a vntype, or returns "" if that is unknown.
func (v Vntype) Advice() string {
	if v.File == "" || v.shut {
		return ""
	}
	const advice = "echo NAME >%s, then SIGHUP to pbs_mom; only the server knows a vntype that qmgr has set"
	return fmt.Sprintf(advice, v.File)
}
