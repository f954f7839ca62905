package daemon

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/settings"
)

// sent is the daemon's knowledge of the configuration that PBS sends.
type sent struct {
	mu      sync.Mutex
	known   bool             // a configuration was read
	dir     string           // directory of MoM's hooks, from the configuration
	version settings.Version // the last version that was read
	refused string           // why that version is not in force, or ""
}

// swapWithin bounds how long an event waits for the calls of the replaced programs to end.
const swapWithin = time.Second

// noteSent records that a configuration was read; err is why it could not be put in force. Once
// PBS's configuration is in force, a copy of it is written, in case PBS then sends one that is
// invalid.
func (c *configuration) noteSent(s settings.Settings, err error) {
	c.sent.mu.Lock()
	defer c.sent.mu.Unlock()
	if err != nil {
		c.sent.refused = err.Error()
		return
	}
	c.sent.known, c.sent.dir, c.sent.version, c.sent.refused = true, s.PBS.Dir, s.PBS.Version, ""
	if s.Refused != nil {
		c.log.Errorf("what PBS has sent is refused, the one before stays in force: %v", s.Refused)
		c.sent.refused = s.Refused.Error()
		return
	}
	if !s.PBS.There {
		return
	}
	if err := nodestate.Dir(c.paths.State).SetConfiguration(s.InForce); err != nil {
		c.log.Errorf("keep the configuration of PBS's: %v", err)
	}
}

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

// hooksOf returns the hooks folder of the MoM with that home, as the configuration names it. For
// any other MoM it returns "": that MoM does not configure this host.
func (c *configuration) hooksOf(home string) string {
	c.sent.mu.Lock()
	known, dir := c.sent.known, c.sent.dir
	c.sent.mu.Unlock()
	if !known || home == "" {
		return ""
	}
	at := string(openpbs.HooksOf(home))
	if dir == "" && home == c.momHome() { // PBS was installed on this host after the daemon started
		return at
	}
	if own, err := filepath.EvalSymlinks(dir); dir == at || err == nil && own == at {
		return dir
	}
	return ""
}

// receive puts the configuration in force that PBS has sent since the last event, if any. Each
// event checks the file once, so nothing has to be watched. The next job uses the configuration
// that the administrator sees on the node. home belongs to the MoM that sends the event.
func (c *configuration) receive(ctx context.Context, home, hook string) {
	dir := c.hooksOf(home)
	if dir == "" || filepath.Base(hook) != hook || !c.isNew(settings.VersionOf(filepath.Join(dir, hook+".CF"))) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, swapWithin)
	defer cancel()
	if err := c.Reload(ctx); err != nil {
		c.log.Errorf("take over what PBS has sent: %v", err)
		return
	}
	c.log.WithField("hook", hook).Info("PBS has sent a configuration: reloaded")
}

// isNew records a version of PBS's configuration, and reports whether it has changed. If several
// events see the change, only the first gets true.
func (c *configuration) isNew(v settings.Version) bool {
	c.sent.mu.Lock()
	defer c.sent.mu.Unlock()
	was := c.sent.version
	if v.Inode == was.Inode && v.Size == was.Size && v.Changed == was.Changed {
		return false
	}
	if v != (settings.Version{}) && v.Size == 0 { // MoM has opened it and not written it yet
		return false
	}
	c.sent.version = v
	return true
}
