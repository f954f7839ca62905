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

// checkLimit is how long a program may take to say whether it takes a configuration.
const checkLimit = 10 * time.Second

// checkConfig starts the program of a hook with a configuration that is about to be imported and
// returns what the hook has against it. The result is nil also if nobody can tell. Then no program
// was imported yet, it does not start, or there is no place for its socket. A hook with
// user=pbsuser is not asked either: its program is not to run as root. The program sees no event
// and ends again.
func (r *Registry) checkConfig(h Hook, config []byte) error {
	if h.Program == "" || h.User == userOwner {
		return nil
	}
	dir, err := os.MkdirTemp("", "hookhost-")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(dir)
	log := logrus.New()
	log.SetOutput(io.Discard)
	l, err := newLauncher(r, dir, checkLimit, logrus.NewEntry(log))
	if err != nil {
		return nil
	}
	defer l.close()
	h.Config, h.ConfigData = "", config
	inst, err := l.launch(context.Background(), h, nil, l.log)
	if err == nil {
		inst.clean()
		return nil
	}
	return saidByHook(err)
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
