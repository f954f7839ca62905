package qmgr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
)

// reachWithin is how long a command waits for the nodes. The server sends a hook within a second or
// two.
const reachWithin = 30 * time.Second

// reach waits until the server has sent the current hook to all nodes that are up, and prints the
// nodes that it waits for. It is not an error if nodes have not confirmed after reachWithin,
// because the server keeps trying.
func (r *Registrar) reach(hook string) error { return r.confirmed(hook, "Hook "+hook) }

// removed waits in the same way until the nodes no longer have the hook. A moment later the server
// accepts a new one of the same name.
func (r *Registrar) removed(hook string) error { return r.confirmed(hook, "The removal of hook "+hook) }

// settle waits before the deletion of a hook until the nodes have its last change. A server that
// has not sent that yet does so after the deletion (OpenPBS 23.06, sync_mom_hookfilesTPP in
// hook_func.c), and NAME.HK stays on the nodes.
func (r *Registrar) settle(directive string) error {
	hook, deletes := strings.CutPrefix(directive, "delete hook ")
	if !deletes {
		return nil
	}
	return r.confirmed(hook, "The last change of hook "+hook)
}

// confirmed waits for the nodes that have not confirmed a change of the hook, for reachWithin.
func (r *Registrar) confirmed(hook, something string) error {
	return r.confirmedWithin(reachWithin, hook, something)
}

func (r *Registrar) confirmedWithin(within time.Duration, hook, something string) error {
	conf, err := r.Conf()
	if err != nil {
		return err
	}
	if !filepath.IsAbs(conf["PBS_HOME"]) {
		return nil
	}
	return r.await(within, hook, something, func() ([]byte, error) {
		text, err := os.ReadFile(filepath.Join(conf["PBS_HOME"], openpbs.Tracking))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return text, err
	})
}

// await waits until two readings of tracking in a row have no pending node, for at most within. It
// prints the pending nodes. The server empties the file before it writes it again (openpbs
// hook_func.c, hook_track_save), so a single reading may lack lines.
func (r *Registrar) await(within time.Duration, hook, something string, tracking func() ([]byte, error)) error {
	var said []string
	confirmed := false // by the last reading
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		text, err := tracking()
		if err != nil {
			return fmt.Errorf("check whether the nodes have the hook: %w", err)
		}
		pending := openpbs.Pending(text, hook)
		names := strings.Join(pending, ", ")
		before := confirmed
		confirmed = len(pending) == 0
		switch {
		case confirmed && before:
			return nil
		case confirmed:
		case time.Now().After(end):
			const text = "%s has not reached %s within %g s. " +
				"The server keeps trying. Until then nothing changes there.\n"
			fmt.Fprintf(r.ErrOut, text, something, names, within.Seconds())
			return nil
		case !slices.Equal(pending, said):
			fmt.Fprintf(r.ErrOut, "%s is on its way to %s.\n", something, names)
			said = pending
		}
	}
}
