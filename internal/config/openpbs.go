package config

import (
	"errors"
	"fmt"
	"path"

	"github.com/hookhost/hookhost/internal/pbs"
)

// OpenPBS says where pbs_mom keeps its files.
type OpenPBS struct {
	Home string `toml:"home" json:"home" comment:"PBS_HOME, or PBS_MOM_HOME where pbs_mom has one of its own: the folder that mom_priv is in. Empty: as conf says."`
	Conf string `toml:"conf" json:"conf" comment:"PBS's own configuration file on this host."`
}

// DefaultOpenPBS returns where an OpenPBS is that nobody has moved (openpbs src/lib/Libifl/pbs_loadconf.c).
func DefaultOpenPBS() OpenPBS { return OpenPBS{Conf: "/etc/pbs.conf"} }

func (o OpenPBS) check() error {
	for _, f := range []struct{ key, path string }{{"home", o.Home}, {"conf", o.Conf}} {
		if f.path != "" && (!path.IsAbs(f.path) || path.Clean(f.path) != f.path) {
			return fmt.Errorf("openpbs.%s = %q: want a clean absolute path", f.key, f.path)
		}
	}
	return nil
}

// ErrNoMoM is the error of MoMHome where nothing says where pbs_mom is.
var ErrNoMoM = errors.New("pbs_mom has no home: neither openpbs.home nor a pbs.conf tells one")

// MoMHome returns the folder that mom_priv of pbs_mom is in. It reads the pbs.conf where the
// configuration does not say.
func (o OpenPBS) MoMHome() (string, error) {
	if o.Home != "" {
		return o.Home, nil
	}
	if o.Conf == "" {
		return "", ErrNoMoM
	}
	conf, err := pbs.ReadConf(o.Conf)
	if err != nil {
		return "", err
	}
	home := pbs.MoMHome(conf)
	if !path.IsAbs(home) {
		return "", ErrNoMoM
	}
	return home, nil
}
