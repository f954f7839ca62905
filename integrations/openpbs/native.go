package openpbs

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Native gives the place of a node's pbs_python to the stand-in, and back. Its methods print what
// they do, and are root's.
type Native struct {
	Place  StandIn
	Hook   string // the name of the hook, for the stand-in
	DryRun bool   // print what would be done, and do nothing
	Out    io.Writer
}

// Install sets the stand-in, a program, in the place of pbs_python. Idempotent. Install fails as
// StandIn does.
func (n Native) Install(program string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may replace pbs_python: run it as root")
	}
	place, err := n.Place.Inspect(program)
	if err != nil {
		return fmt.Errorf("native: %w", err)
	}
	said := "pbs_python in %s becomes the stand-in; PBS's own is kept beside it.\n"
	switch {
	case place.Outdated:
		said = "The stand-in in %s becomes the one of this hookhost.\n"
	case place.StandIn:
		said = "The stand-in is pbs_python in %s already.\n"
	case place.Lost:
		said = "PBS was upgraded: its new pbs_python in %s becomes the stand-in again.\n"
	}
	if n.DryRun {
		_, err := fmt.Fprintf(n.Out, said, n.Place.Dir)
		return err
	}
	if err := n.Place.Install(program, n.Hook); err != nil {
		return fmt.Errorf("native: %w", err)
	}
	const advice = "It holds from the next event on; nothing has to be restarted. " +
		"Take it back before you upgrade or remove PBS, or install it again afterwards.\n"
	_, err = fmt.Fprintf(n.Out, said+advice, n.Place.Dir)
	return err
}

// Uninstall puts pbs_python back if the stand-in has its place. only says that nothing else is to
// be taken away, so that a host without either is an error. done is false if there was nothing to
// do. Idempotent.
func (n Native) Uninstall(only bool) (done bool, err error) {
	place, err := n.Place.Inspect("")
	switch {
	case err != nil && only:
		return false, fmt.Errorf("native: %w", err)
	case err != nil:
		return false, nil // the hook is what is to be taken away
	case os.Geteuid() != 0:
		return false, errors.New("only root may put pbs_python back: run it as root")
	}
	if n.DryRun {
		if place.StandIn {
			fmt.Fprintf(n.Out, "pbs_python in %s becomes PBS's own again.\n", n.Place.Dir)
		}
		return place.StandIn, nil
	}
	if done, err = n.Place.Uninstall(); err != nil {
		return done, fmt.Errorf("native: %w", err)
	}
	if done {
		fmt.Fprintf(n.Out, "pbs_python in %s is PBS's own.\n", n.Place.Dir)
	} else if only {
		fmt.Fprintf(n.Out, "pbs_python in %s is PBS's own already.\n", n.Place.Dir)
	}
	return done, nil
}
