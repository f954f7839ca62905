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
	configs atomic.Int64            // how many configurations have been put in force
	verdict atomic.Pointer[verdict] // nil as long as there is none
}

// verdict is the result of an examination of the node with a configuration.
type verdict struct {
	ok     bool
	config int64 // how many configurations had been put in force
}

// doctorWithin bounds a run of the command. NVIDIA's library may take seconds to start.
const doctorWithin = 2 * time.Minute

func newDoctor(command []string, inForce func() bool, log *logrus.Entry) *doctor {
	return &doctor{command: command, inForce: inForce, log: log, wanted: make(chan struct{}, 1)}
}

// configured makes run examine the node with a new configuration. It does not wait.
func (d *doctor) configured() {
	d.configs.Add(1)
	d.Examine()
}

// Examine makes run examine the node. It does not wait.
func (d *doctor) Examine() {
	select {
	case d.wanted <- struct{}{}:
	default: // one waits already
	}
}

// retry makes run examine the node again unless it has found that every configured hook can work.
// An earlier result may not have counted because a configuration file could not be read just then.
func (d *doctor) retry() {
	if v := d.current(); v == nil || !v.ok {
		d.Examine()
	}
}

// current returns the verdict about the configuration in force, or nil if there is none yet.
func (d *doctor) current() *verdict {
	if v := d.verdict.Load(); v != nil && v.config == d.configs.Load() {
		return v
	}
	return nil
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
		config := d.configs.Load()
		ok, err := d.examine(ctx)
		if ctx.Err() != nil || !d.inForce() {
			continue
		}
		if err != nil {
			d.log.Warnf("hookhost doctor: %v", err)
		}
		d.note(verdict{ok, config})
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
	v := d.current()
	switch {
	case !enabled:
		return "", true
	case v == nil:
		return "", false
	case v.ok:
		return "ok", true
	}
	return "degraded", true
}

// lastOK returns the last result, even if it is about an earlier configuration. It is nil as long
// as there is none.
func (d *doctor) lastOK() *bool {
	if v := d.verdict.Load(); v != nil {
		return &v.ok
	}
	return nil
}

// note logs a change of the result.
func (d *doctor) note(v verdict) {
	old := d.lastOK()
	d.verdict.Store(&v)
	if old == nil && v.ok || old != nil && *old == v.ok {
		return
	}
	if v.ok {
		d.log.Info("every configured hook can work again")
	} else {
		d.log.Warn("a configured hook cannot work on this node: hookhost doctor says why")
	}
}
