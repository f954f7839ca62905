package host

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

// checkConfig starts the program of a hook with a configuration that is about to be imported and returns what the hook has
// against it. It returns nil also where nobody can tell: no program was imported yet, it does not start, there is no place for
// its socket, or the hook has user=pbsuser, whose program is not to run as root. The program sees no event and ends again.
func (r *Registry) checkConfig(h Hook, config []byte) error {
	if h.Program == "" || h.User == UserOwner {
		return nil
	}
	dir, err := os.MkdirTemp("", "hookhost-")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(dir)
	sockets, err := newSocketDir(dir)
	if err != nil {
		return nil
	}
	defer sockets.remove()
	l := &launcher{paths: r.paths(), spawn: newSpawner(), sockets: sockets, limit: checkLimit, node: r.Node, settings: r.Settings}
	defer l.spawn.close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	h.Config, h.ConfigData = "", config
	inst, err := l.launch(context.Background(), h, nil, logrus.NewEntry(log))
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
