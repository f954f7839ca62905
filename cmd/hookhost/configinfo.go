package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

// restartOnly are settings that a running host does not take over: live jobs are where they are.
// Connections to other hosts are made with those of [sister].
var restartOnly = []string{"cgroup.prefix", "cgroup.mount", "host.start_timeout", "host.allow_unsafe_hooks"}

// waiting returns the settings of a configuration that are not in force, and of these the ones that
// only a restart takes over. b.reloaded is held.
func (b *backend) waiting(cfg *config.File) (all, restart []config.Change, err error) {
	all, err = config.Changes(b.cfg, cfg)
	if err != nil {
		return nil, nil, err
	}
	name, err := nodeName(cfg)
	if err != nil {
		return nil, nil, err
	}
	const node = "host.node" // the name counts, which is the host's where the setting is empty
	all = slices.DeleteFunc(all, func(c config.Change) bool { return c.Key == node })
	if name != b.node {
		all = append(all, config.Change{Key: node, Old: strconv.Quote(b.node), New: strconv.Quote(name)})
	}
	for _, c := range all {
		if slices.Contains(restartOnly, c.Key) || c.Key == node || ofConnections(c.Key) {
			restart = append(restart, c)
		}
	}
	return all, restart, nil
}

// ofConnections tells whether connections to other hosts depend on a setting.
func ofConnections(key string) bool {
	return strings.HasPrefix(key, "sister.") && key != "sister.heads" && key != "sister.allow_root"
}

// keeps refuses a configuration with settings that only a restart takes over. b.reloaded is held.
func (b *backend) keeps(cfg *config.File) error {
	_, restart, err := b.waiting(cfg)
	if err != nil || len(restart) == 0 {
		return err
	}
	var list []string
	for _, c := range restart {
		list = append(list, fmt.Sprintf("%s (%s in force, %s wanted)", c.Key, c.Old, c.New))
	}
	const why = "changes only with a restart, and nothing else is taken over until then"
	return fmt.Errorf("%s: %s", strings.Join(list, ", "), why)
}

// configInfo compares the configuration files with what is in force. b.reloaded is held.
func (b *backend) configInfo() *api.ConfigInfo {
	info := &api.ConfigInfo{File: b.cli.config}
	s, err := b.cli.loadSettings()
	if s.sent != nil {
		info.File += " above PBS's"
	}
	var all, restart []config.Change
	if err == nil {
		all, restart, err = b.waiting(s.file)
	}
	if err != nil {
		info.Error = err.Error()
		return info
	}
	for _, c := range all {
		s := api.Setting{Key: c.Key, InForce: c.Old, Waits: c.New}
		if slices.Contains(restart, c) {
			info.Restart = append(info.Restart, s)
		} else {
			info.Reload = append(info.Reload, s)
		}
	}
	return info
}
