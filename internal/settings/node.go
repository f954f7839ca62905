package settings

import (
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Here returns the values on this host that the conditions of a configuration are evaluated for.
func Here(openpbs *config.OpenPBS) (config.Here, error) {
	name, err := pbs.HostName()
	if err != nil {
		return config.Here{}, err
	}
	vntype, err := ReadVntype(openpbs)
	return config.Here{Host: name, Vntype: vntype.Name}, err
}

// Node returns this host's name in exec_vnode. MoM's default is the hostname.
func Node(f *config.File) (string, error) {
	if f.Host.Node != "" {
		return f.Host.Node, nil
	}
	return pbs.HostName()
}
