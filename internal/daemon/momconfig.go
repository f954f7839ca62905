package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/settings"
)

// sent is the daemon's data about the configuration that PBS sends.
type sent struct {
	mu   sync.Mutex
	own  bool   // the node's own file is in force
	text []byte // the last one that was read, or why it could not be; nil for none
	// why the last reload for it failed; "" if none did
	failed string
}

// swapWithin bounds how long an event waits for the calls of the replaced programs to end.
const swapWithin = time.Second

// noteSent records that a configuration was put in force. A copy of PBS's is written, in case PBS
// then sends one that is invalid and the daemon is restarted.
func (c *configuration) noteSent(s settings.Settings) {
	c.sent.mu.Lock()
	defer c.sent.mu.Unlock()
	c.sent.own, c.sent.failed = s.Own, ""
	switch {
	case s.PBS.Text != nil || s.PBS.Path == "":
		c.sent.text = s.PBS.Text
	case s.Refused != nil: // it could not be read, and is new when it can be
		c.sent.text = []byte(s.Refused.Error())
	}
	if s.Refused != nil {
		c.log.Errorf("the configuration that PBS has sent is refused, and %s stays in force: %v",
			cmp.Or(s.Path, "the default"), s.Refused)
		return
	}
	if s.Own && s.PBS.Path != "" {
		c.log.Infof("%s is in force, and nothing of %s", s.Path, s.PBS.Path)
	}
	if s.InForce == nil {
		return
	}
	if err := nodestate.Dir(c.paths.State).SetConfiguration(s.InForce); err != nil {
		c.log.Errorf("write a copy of the configuration that PBS has sent: %v", err)
	}
}

// receive puts the configuration in force that PBS has sent since the last event, if any. Each
// event checks the file once, so nothing has to be watched. The next job uses the configuration
// that the administrator sees on the node. hook is the name of MoM's hook that sends the event.
func (c *configuration) receive(ctx context.Context, hook string) {
	if !c.isNew(hook) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, swapWithin)
	defer cancel()
	if err := c.Reload(ctx); err != nil {
		c.noteFailed(err)
		return
	}
	c.log.WithField("hook", hook).Info("PBS has sent a configuration: reloaded")
}

// noteFailed records that a reload failed. Each event tries again, because the reason may pass. It
// is logged once.
func (c *configuration) noteFailed(err error) {
	c.sent.mu.Lock()
	defer c.sent.mu.Unlock()
	if c.sent.failed != err.Error() {
		c.log.Errorf("load the configuration that PBS sent: %v", err)
	}
	c.sent.failed = err.Error()
}

// isNew reads the configuration of the hook that sends an event and reports whether it has changed,
// or whether the reload for it failed. If several events see the change, only the first gets true.
// Only the hook whose configuration a
// reload reads counts, not the hook of another MoM on this host.
func (c *configuration) isNew(hook string) bool {
	c.sent.mu.Lock()
	defer c.sent.mu.Unlock()
	home, err := c.file.Load().OpenPBS.MoMHome()
	if c.sent.own || err != nil || filepath.Base(hook) != hook {
		return false
	}
	hooks := openpbs.HooksOf(home)
	text, err := settings.ReadSent(hooks.Config(hook))
	switch {
	case err == nil && len(text) == 0: // MoM has opened it and not written it yet
		return false
	case err != nil && !errors.Is(err, fs.ErrNotExist): // is refused once, and again if the reason changes
		text = []byte(err.Error())
	}
	if bytes.Equal(text, c.sent.text) && c.sent.failed == "" {
		return false
	}
	if ours, err := hooks.Ours(); err != nil || ours != hook {
		return false
	}
	c.sent.text = text
	return true
}
