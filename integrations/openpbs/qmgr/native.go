package qmgr

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/integrations/openpbs"
)

// place returns the location of this host's pbs_python.
func (r *Registrar) place() (openpbs.StandIn, error) {
	dir, err := r.exec()
	return openpbs.StandIn{Dir: filepath.Join(dir, "bin")}, err
}

// InstallNative replaces pbs_python with program, the stand-in. It is idempotent. It fails if
// StandIn does, and for users other than root.
func (r *Registrar) InstallNative(program string) error {
	s, err := r.place()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("only root may replace pbs_python: run it as root")
	}
	place, err := s.Inspect(program)
	if err != nil {
		return fmt.Errorf("native: %w", err)
	}
	said := "pbs_python in %s is replaced by the stand-in. PBS's own is kept beside it.\n"
	switch {
	case place.Outdated:
		said = "The stand-in in %s is replaced by the one of this hookhost.\n"
	case place.StandIn:
		said = "pbs_python in %s already is the stand-in.\n"
	case place.Lost:
		said = "PBS was upgraded: its new pbs_python in %s is replaced by the stand-in again.\n"
	}
	if !r.DryRun {
		if err := s.Install(program); err != nil {
			return fmt.Errorf("native: %w", err)
		}
		said += "It takes effect at the next event, without any restart. " +
			"Uninstall it before you upgrade or remove PBS, or install it again afterwards.\n"
	}
	_, err = fmt.Fprintf(r.Out, said, s.Dir)
	return err
}

// uninstallNative restores pbs_python if the stand-in has replaced it. only means that nothing else
// will be uninstalled, so a host without a pbs_python is an error. done is false if there was
// nothing to do. It is idempotent.
func (r *Registrar) uninstallNative(only bool) (done bool, err error) {
	s, err := r.place()
	if err != nil {
		return false, err
	}
	place, err := s.Inspect("")
	switch {
	case err != nil && only:
		return false, fmt.Errorf("native: %w", err)
	case err != nil:
		return false, nil // the hook is to be uninstalled
	case os.Geteuid() != 0 && !only:
		return false, nil // open says what takes root
	case os.Geteuid() != 0:
		return false, errors.New("only root may restore pbs_python: run it as root")
	}
	if r.DryRun {
		if place.StandIn {
			fmt.Fprintf(r.Out, "pbs_python in %s is replaced by PBS's own.\n", s.Dir)
		}
		return place.StandIn, nil
	}
	if done, err = s.Uninstall(); err != nil {
		return done, fmt.Errorf("native: %w", err)
	}
	if done {
		fmt.Fprintf(r.Out, "pbs_python in %s is PBS's own.\n", s.Dir)
	} else if only {
		fmt.Fprintf(r.Out, "pbs_python in %s already is PBS's own.\n", s.Dir)
	}
	return done, nil
}
