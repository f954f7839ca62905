package config

import (
	"errors"
	"path"

	"github.com/hookhost/hookhost/internal/pbs"
)

// OpenPBS says where pbs_mom keeps its files.
type OpenPBS struct {
	Home string `toml:"home" json:"home"`
	Conf string `toml:"conf" json:"conf"`
}

// ErrNoMoM is the error of MoMHome where nothing says where pbs_mom is.
var ErrNoMoM = errors.New("pbs_mom has no home: neither openpbs.home nor a pbs.conf tells one")

// MoMHome returns the folder that mom_priv of pbs_mom is in. MoMHome reads the pbs.conf where the
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
