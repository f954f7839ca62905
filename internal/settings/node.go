package settings

import (
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Here returns the values on this host that the conditions of a configuration are evaluated for.
func Here(openpbs *config.OpenPBS) (config.Here, error) {
	name, err := hostName(openpbs)
	if err != nil {
		return config.Here{}, err
	}
	vntype, err := ReadVntype(openpbs)
	return config.Here{Host: name, Vntype: vntype.Name}, err
}

// Node returns this host's name in exec_vnode.
func Node(f *config.File) (string, error) {
	if f.Host.Node != "" {
		return f.Host.Node, nil
	}
	return hostName(&f.OpenPBS)
}

// hostName returns PBS_MOM_NODE_NAME of pbs.conf, or else MoM's default, the hostname up to the
// first dot.
func hostName(openpbs *config.OpenPBS) (string, error) {
	if openpbs.Conf != "" {
		conf, err := pbs.ReadConf(openpbs.Conf)
		if err != nil {
			return "", err
		}
		if name := conf["PBS_MOM_NODE_NAME"]; name != "" {
			return name, nil
		}
	}
	return pbs.HostName()
}
