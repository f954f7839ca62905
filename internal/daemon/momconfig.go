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

// sent is what the daemon knows of the configuration that PBS sends.
type sent struct {
	mu      sync.Mutex
	known   bool             // a configuration was read
	dir     string           // of MoM's hooks, as the configuration has it
	version settings.Version // that was read last
	refused string           // why that version is not in force, "" if it is
}

// swapWithin bounds how long an event waits for the end of calls of the hooks' programs of before.
const swapWithin = time.Second

// noteSent notes a configuration that was read; err is why it could not be put in force. A copy of
// PBS's is written once it is in force, in case PBS then sends one that does not hold.
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

// momHome returns the configured home of pbs_mom as the kernel names it, "" for none.
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

// hooksOf returns the folder of the hooks of the MoM with that home, as the configuration names
// it. Another MoM's is "": it has no say here.
func (c *configuration) hooksOf(home string) string {
	c.sent.mu.Lock()
	known, dir := c.sent.known, c.sent.dir
	c.sent.mu.Unlock()
	if !known || home == "" {
		return ""
	}
	at := string(openpbs.HooksOf(home))
	if dir == "" && home == c.momHome() { // PBS came to this host after the daemon
		return at
	}
	if own, err := filepath.EvalSymlinks(dir); dir == at || err == nil && own == at {
		return dir
	}
	return ""
}

// receive puts the configuration in force that PBS has sent since the last event, if any. Each
// event asks the file system once, so nothing has to be watched. The next job has what its
// administrator sees on the node. home is that of the MoM that sends the event.
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

// isNew notes a version of PBS's configuration, and reports whether it is another one than before.
// Only the first of several events that see it gets true.
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
