package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// standInProgram comes with hookhost: beside it as it was built, or in libexec.
const standInProgram = "openpbs/pbs_python"

// standIn is the place of this host's pbs_python.
func (f *openpbsFlags) standIn(conf map[string]string) openpbs.StandIn {
	dir := f.exec
	if dir == "" {
		dir = pbs.Exec(conf)
	}
	return openpbs.StandIn{Dir: filepath.Join(dir, "bin")}
}

func (f *openpbsFlags) installNative(c *cli, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may replace pbs_python: run it as root")
	}
	conf, err := c.pbsConf()
	if err != nil {
		return err
	}
	program, err := findBeside(standInProgram)
	if err != nil {
		return err
	}
	s := f.standIn(conf)
	place, err := s.Inspect(program)
	if err != nil {
		return err
	}
	said := map[openpbs.State]string{
		openpbs.StateStock:    "pbs_python in %s becomes the stand-in; PBS's own is kept beside it.\n",
		openpbs.StateUpgraded: "PBS was upgraded: its new pbs_python in %s becomes the stand-in again.\n",
		openpbs.StateStandIn:  "The stand-in is pbs_python in %s already.\n",
	}[place.State]
	if place.Outdated {
		said = "The stand-in in %s becomes the one of this hookhost.\n"
	}
	if f.dryRun && said != "" {
		_, err := fmt.Fprintf(out, said, s.Dir)
		return err
	}
	if f.dryRun {
		return fmt.Errorf("native: nothing can be done in %s: %s", s.Dir, cmp.Or(place.Why, "there is no pbs_python"))
	}
	if err := s.Install(program, f.registration.Name); err != nil {
		return fmt.Errorf("native: %w", err)
	}
	_, err = fmt.Fprintf(out, said+"It holds from the next event on; nothing has to be restarted. Take it back before you upgrade or remove PBS, or install it again afterwards.\n", s.Dir)
	return err
}

// uninstallNative puts pbs_python back where the stand-in has its place. done tells whether there was anything to do.
func (f *openpbsFlags) uninstallNative(conf map[string]string, out io.Writer) (done bool, err error) {
	s := f.standIn(conf)
	place, err := s.Inspect("")
	if err != nil {
		return false, fmt.Errorf("native: %w", err)
	}
	switch {
	case place.State == openpbs.StateNone && f.native:
		return false, fmt.Errorf("native: %s: %w", filepath.Join(s.Dir, "pbs_python"), fs.ErrNotExist)
	case place.State == openpbs.StateNone, place.State == openpbs.StateUnknown && !f.native:
		return false, nil // the hook is what is to be taken away
	case os.Geteuid() != 0:
		return false, errors.New("only root may put pbs_python back: run it as root")
	}
	if f.dryRun {
		if done = place.State == openpbs.StateStandIn; done {
			fmt.Fprintf(out, "pbs_python in %s becomes PBS's own again.\n", s.Dir)
		}
		return done, nil
	}
	if done, err = s.Uninstall(); err != nil {
		return done, fmt.Errorf("native: %w", err)
	}
	if done {
		fmt.Fprintf(out, "pbs_python in %s is PBS's own.\n", s.Dir)
	} else if f.native {
		fmt.Fprintf(out, "pbs_python in %s is PBS's own already.\n", s.Dir)
	}
	return done, nil
}
