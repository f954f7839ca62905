package settings

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// Vntype is resources_available.vntype of this host's natural vnode, and the file that contains it.
type Vntype struct {
	Name  string           // "" if none is known
	File  nodestate.Vntype // "" if pbs_mom has no home here
	There bool             // the file exists
	shut  bool             // only root may read it
}

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
	v := Vntype{File: nodestate.VntypeOf(home)}
	v.Name, err = v.File.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nil
	case errors.Is(err, fs.ErrPermission):
		v.shut = true
		return v, nil
	}
	v.There = err == nil
	return v, err
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

// Advice says how the node can get a vntype; "" if that is unknown.
func (v Vntype) Advice() string {
	if v.File == "" || v.shut {
		return ""
	}
	const advice = "echo NAME >%s, then SIGHUP to pbs_mom; one that qmgr has set is known to the server alone"
	return fmt.Sprintf(advice, v.File)
}
