package daemon

import (
	"context"
	"errors"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// doctor has the result of `hookhost doctor` on this node. That command reports it when root runs
// it. The daemon runs it at its start and after each change of its configuration. A run that fails
// counts as a hook that cannot work.
type doctor struct {
	command []string
	log     *logrus.Entry
	wanted  chan struct{}
	verdict atomic.Pointer[bool] // nil as long as it is not known
}

// doctorWithin bounds a run of the command. NVIDIA's library may take seconds to start.
const doctorWithin = 2 * time.Minute

func newDoctor(command []string, log *logrus.Entry) *doctor {
	return &doctor{command: command, log: log, wanted: make(chan struct{}, 1)}
}

// ask makes run examine the node. It does not wait.
func (d *doctor) ask() {
	select {
	case d.wanted <- struct{}{}:
	default: // one waits already
	}
}

// run examines the node whenever that is asked for, until ctx ends.
func (d *doctor) run(ctx context.Context) {
	for len(d.command) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-d.wanted:
		}
		if err := d.examine(ctx); err != nil && ctx.Err() == nil {
			d.log.Warnf("hookhost doctor: %v", err)
			d.Examined(false) // an earlier ok may no longer be true
		}
	}
}

func (d *doctor) examine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	err := exec.CommandContext(ctx, d.command[0], d.command[1:]...).Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // a configured hook cannot work
	}
	return err
}

// Examined notes the result of an examination of this node.
func (d *doctor) Examined(ok bool) {
	if old := d.verdict.Swap(&ok); old == nil && ok || old != nil && *old == ok {
		return
	}
	if ok {
		d.log.Info("every configured hook can work again")
	} else {
		d.log.Warn("a configured hook cannot work on this node: hookhost doctor says why")
	}
}
