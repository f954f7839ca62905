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

// ErrNoMoM is the error of MoMHome if nothing says where pbs_mom is.
var ErrNoMoM = errors.New("pbs_mom has no home: neither openpbs.home nor a pbs.conf tells one")

// MoMHome returns the parent folder of pbs_mom's mom_priv. It reads pbs.conf if the configuration
// does not say.
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
