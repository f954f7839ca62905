package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/hookhost/hookhost/internal/daemon"
)

// linger is how long a daemon of `run` or `event` stays without a job and a client. The next
// command, in a shell's loop say, finds it still there.
const linger = 3 * time.Second

// untilIdle is what a daemon has that goes when it is idle. The zero value is that of one that
// stays.
type untilIdle struct {
	*daemon.Idle
	log *os.File
}

// errJobBegun says that a job has begun while an idle daemon was closing its socket.
var errJobBegun = errors.New("a job has begun")

// serveUntilIdle serves until there is neither a job nor a client. It says nothing and succeeds
// where another daemon is the owner.
func (c *cli) serveUntilIdle(ctx context.Context, s settings) error {
	if err := daemon.CloseInherited(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.state, 0o700); err != nil {
		return err
	}
	log, err := daemon.OpenLog(filepath.Join(c.state, "until-idle.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	logger := newLog(s.file)
	logger.SetOutput(console{log})
	for err = errJobBegun; errors.Is(err, errJobBegun); {
		err = c.serve(ctx, s, logger, untilIdle{daemon.NewIdle(linger), log})
	}
	if errors.Is(err, daemon.ErrRunning) {
		logger.Info(err)
		return nil
	}
	return err
}

// hasJobs tells whether a job is recorded.
func (b *backend) hasJobs() bool { return len(b.store.List()) > 0 }
