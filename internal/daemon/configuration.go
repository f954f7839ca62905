package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/condition"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/delivery"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
	"github.com/hookhost/hookhost/internal/settings"
)

// configuration holds the configuration in force and changes it.
type configuration struct {
	paths    Paths
	node     string
	log      *logrus.Entry
	registry *plugin.Registry
	host     *host.Host
	changed  func() // called with each configuration that was put in force

	file     atomic.Pointer[config.File]
	sent     sent
	mu       sync.Mutex // protects a change of file, and registry
	learning sync.Mutex // protects the vntype
}

// read reads the configuration files.
func (c *configuration) read() (settings.Settings, error) { return c.paths.Source().Read(c.paths.Must) }

// momHome returns the configured home of pbs_mom with symbolic links resolved, or "".
func (c *configuration) momHome() string {
	home, err := c.file.Load().OpenPBS.MoMHome()
	if err != nil {
		return ""
	}
	if own, err := filepath.EvalSymlinks(home); err == nil {
		return own
	}
	return home
}

// reportTargets returns where else reports of finished jobs go.
func (c *configuration) reportTargets() delivery.Targets {
	r := c.file.Load().Reports
	return delivery.Targets{Directory: r.Directory, Command: r.Command}
}

// reportBounds returns the bounds in the configuration in force.
func (c *configuration) reportBounds() reports.Bounds {
	r := c.file.Load().Reports
	return reports.Bounds{Age: time.Duration(r.Keep), Size: int64(r.KeepSize)}
}

// siteAdvice returns the site's advice in the configuration in force.
func (c *configuration) siteAdvice() []report.Rule {
	var rules []report.Rule
	for _, a := range c.file.Load().Advice {
		when, err := condition.Parse(a.When)
		if err == nil { // it was checked
			rules = append(rules, report.Rule{When: when, Text: a.Text, Link: a.Link})
		}
	}
	return rules
}

// Reload reads the configuration and the registered hooks again. On an error everything stays as it
// is. If what PBS has sent is invalid, the configuration in force stays.
func (c *configuration) Reload(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.read()
	if err == nil && s.Refused != nil {
		s.File, err = c.inForce()
	}
	if err == nil {
		err = c.apply(ctx, s.File)
	}
	if err == nil {
		c.noteSent(s)
	}
	return err
}

// resolve evaluates the conditions of the configuration in force again. A changed file waits for a
// reload, because it may just be being written.
func (c *configuration) resolve(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := c.inForce()
	if err != nil {
		return err
	}
	return c.apply(ctx, file)
}

// inForce returns the configuration in force with its conditions evaluated again.
func (c *configuration) inForce() (*config.File, error) {
	now := c.file.Load()
	here, err := settings.Here(&now.OpenPBS)
	if err != nil {
		return nil, err
	}
	return now.For(here)
}

// apply puts a configuration in force. The caller holds c.mu.
func (c *configuration) apply(ctx context.Context, file *config.File) error {
	if err := c.checkRestart(file); err != nil {
		return err
	}
	hooks, off, err := c.paths.builtIn(file)
	if err != nil {
		return err
	}
	oldHooks, oldOff := c.registry.BuiltIn, c.registry.Off
	c.registry.BuiltIn, c.registry.Off = hooks, off
	if err := c.host.Reload(ctx); err != nil {
		c.registry.BuiltIn, c.registry.Off = oldHooks, oldOff
		return err
	}
	c.file.Store(file)
	c.log.Logger.SetLevel(file.Host.Level())
	c.changed()
	return nil
}

// waiting returns the settings of a configuration that are not in force, and those of them that
// need a restart.
func (c *configuration) waiting(file *config.File) (all, restart []config.Change, err error) {
	all, err = config.Changes(c.file.Load(), file)
	if err != nil {
		return nil, nil, err
	}
	name, err := settings.Node(file)
	if err != nil {
		return nil, nil, err
	}
	const node = "host.node" // compares the name, which is the hostname if the setting is empty
	all = slices.DeleteFunc(all, func(change config.Change) bool { return change.Key == node })
	if name != c.node {
		all = append(all, config.Change{Key: node, Old: strconv.Quote(c.node), New: strconv.Quote(name)})
	}
	for _, change := range all {
		if change.NeedsRestart() {
			restart = append(restart, change)
		}
	}
	return all, restart, nil
}

// checkRestart refuses a configuration with changed settings that need a restart.
func (c *configuration) checkRestart(file *config.File) error {
	_, restart, err := c.waiting(file)
	if err != nil || len(restart) == 0 {
		return err
	}
	var list []string
	for _, change := range restart {
		list = append(list, fmt.Sprintf("%s (%s in force, %s wanted)", change.Key, change.Old, change.New))
	}
	const why = "changes only with a restart; until then no other change takes effect either"
	return fmt.Errorf("%s: %s", strings.Join(list, ", "), why)
}

// allInForce reports whether the configuration files are in force as they are now.
func (c *configuration) allInForce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info().InForce()
}

// info compares the configuration files with the configuration in force.
func (c *configuration) info() *api.ConfigInfo {
	s, err := c.read()
	info := &api.ConfigInfo{File: cmp.Or(s.Path, c.paths.Config)}
	var all, restart []config.Change
	if err == nil {
		all, restart, err = c.waiting(s.File)
	}
	if err != nil {
		info.Error = err.Error()
		return info
	}
	for _, change := range all {
		setting := api.Setting{Key: change.Key, InForce: change.Old, Waits: change.New}
		if slices.Contains(restart, change) {
			info.Restart = append(info.Restart, setting)
		} else {
			info.Reload = append(info.Reload, setting)
		}
	}
	return info
}
