package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// checkLimit is how long a program that is started for a check may take. Tests set it.
var checkLimit = 10 * time.Second

// checkProgram starts a program that is about to be imported, and returns why it is no hook's. The
// start has the checks of each start: the file and the directories above it are root's alone. The
// program is not configured, sees no event and ends again.
func (r *Registry) checkProgram(h Hook) error {
	file, err := r.paths().openSummed(h.Program, h.SHA256)
	if err != nil {
		return err
	}
	file.Close()
	return r.withLauncher(func(l *launcher) error {
		ctx, cancel := l.limited(context.Background())
		defer cancel()
		inst, err := l.start(ctx, h, l.log)
		if err != nil {
			return fmt.Errorf("it does not start as a hook: %w", err)
		}
		inst.stop()
		return nil
	})
}

// checkConfig starts the program of a hook with a configuration that is about to be imported and
// returns what the hook has against it. The result is nil also if nobody can tell: no program was
// imported yet, or it does not start. The program sees no event and ends again.
func (r *Registry) checkConfig(h Hook, config []byte) error {
	if h.Program == "" {
		return nil
	}
	h.Config, h.ConfigData = "", config
	return r.withLauncher(func(l *launcher) error {
		inst, err := l.launch(context.Background(), h, l.log)
		if err == nil {
			inst.stop()
			return nil
		}
		return saidByHook(err)
	})
}

// withLauncher calls check with a launcher for programs that are started for it. They say nothing
// in a log.
func (r *Registry) withLauncher(check func(*launcher) error) error {
	dir, err := os.MkdirTemp("/tmp", "hookhost-") // the path of a socket has a limit
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := logrus.New()
	log.SetOutput(io.Discard)
	l, err := newLauncher(r, dir, checkLimit, logrus.NewEntry(log))
	if err != nil {
		return err
	}
	defer l.close()
	return check(l)
}

// saidByHook returns what of a failed start the hook itself said, nil where it was not asked.
func saidByHook(err error) error {
	start, ok := errors.AsType[*hostapi.Error](err)
	if !ok {
		return nil
	}
	if own, ok := errors.AsType[*hostapi.Error](errors.Unwrap(start)); ok {
		return fmt.Errorf("its program refuses it: %w", own)
	}
	return nil
}
