package daemon

import (
	"context"
	"errors"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// doctor runs `hookhost doctor` and has its result: whether every configured hook can work. It does
// so at the daemon's start, after each change of its configuration, and when root has run the
// command. The result that root gets does not count: a container does not show the node. It also
// does so at each exechost_periodic until every hook can work: at boot a file system or a driver
// may not be there yet. A run that fails counts as a hook that cannot work.
type doctor struct {
	command []string
	inForce func() bool // all of the configuration is in force
	log     *logrus.Entry
	wanted  chan struct{}
	verdict atomic.Pointer[bool] // nil as long as it is not known
	stale   atomic.Bool          // the verdict is about an earlier configuration
}

// doctorWithin bounds a run of the command. NVIDIA's library may take seconds to start.
const doctorWithin = 2 * time.Minute

func newDoctor(command []string, inForce func() bool, log *logrus.Entry) *doctor {
	return &doctor{command: command, inForce: inForce, log: log, wanted: make(chan struct{}, 1)}
}

// configured makes run examine the node with a new configuration. It does not wait.
func (d *doctor) configured() {
	d.stale.Store(true)
	d.Examine()
}

// Examine makes run examine the node. It does not wait.
func (d *doctor) Examine() {
	select {
	case d.wanted <- struct{}{}:
	default: // one waits already
	}
}

// retry makes run examine the node again if a configured hook could not work.
func (d *doctor) retry() {
	if ok := d.verdict.Load(); ok != nil && !*ok {
		d.Examine()
	}
}

// run examines the node whenever that is requested, until ctx ends. The command reads the
// configuration files, so its result does not count while a change in them waits for a reload.
func (d *doctor) run(ctx context.Context) {
	for len(d.command) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-d.wanted:
		}
		ok, err := d.examine(ctx)
		if ctx.Err() != nil || !d.inForce() {
			continue
		}
		if err != nil {
			d.log.Warnf("hookhost doctor: %v", err)
		}
		d.note(ok)
	}
}

// examine reports whether every configured hook can work. That is the command's exit status.
func (d *doctor) examine(ctx context.Context) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	err = exec.CommandContext(ctx, d.command[0], d.command[1:]...).Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// state returns the state of hookhost on this host for PBS: see openpbs.Event.AddState. It is not
// known before the configuration has been examined, unless hookhost leaves the host alone.
func (d *doctor) state(enabled bool) (state string, known bool) {
	ok := d.verdict.Load()
	switch {
	case !enabled:
		return "", true
	case ok == nil || d.stale.Load():
		return "", false
	case *ok:
		return "ok", true
	}
	return "degraded", true
}

func (d *doctor) note(ok bool) {
	old := d.verdict.Swap(&ok)
	d.stale.Store(len(d.wanted) > 0)
	if old == nil && ok || old != nil && *old == ok {
		return
	}
	if ok {
		d.log.Info("every configured hook can work again")
	} else {
		d.log.Warn("a configured hook cannot work on this node: hookhost doctor says why")
	}
}
