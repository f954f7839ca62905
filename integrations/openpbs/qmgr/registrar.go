package qmgr

import (
	"errors"
	"fmt"
	"io"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Registrar registers hookhost's hook on the host of the PBS server. Its methods print each step.
type Registrar struct {
	Registration openpbs.Registration
	Qmgr         string // the program; "" for the one in PATH, else the one of PBS_EXEC
	Exec         string // PBS_EXEC; "" for the value in pbs.conf
	DryRun       bool   // only print the steps
	Out, ErrOut  io.Writer
	// Conf returns the settings in this host's pbs.conf, or none if there is no such file.
	Conf func() (map[string]string, error)
}

// Install registers the hook, changes only differences, and waits for the nodes. It is idempotent.
func (r *Registrar) Install() error {
	q, all, existing, err := r.open("hookhost openpbs print")
	if err != nil {
		return err
	}
	if err := r.readDelivered(); err != nil {
		return err
	}
	stock := all[openpbs.Stock]
	others, err := q.others(all, r.Registration.Name)
	if err != nil {
		return err
	}
	list, err := r.Registration.Install(existing, stock, others...)
	if errors.Is(err, openpbs.ErrStock) {
		return fmt.Errorf("%w. Nothing was changed", err)
	}
	if err != nil {
		return err
	}
	resources, err := q.resources()
	if err != nil {
		return err
	}
	if list = append(r.Registration.MakeResources(resources), list...); len(list) == 0 {
		fmt.Fprintf(r.Out, "Hook %s is registered already; nothing differs.\n", r.Registration.Name)
	} else if err := r.carryOut(q, list); err != nil {
		return err
	}
	if !r.DryRun {
		if err := r.reach(r.Registration.Name); err != nil {
			return err
		}
	}
	registered := len(list) > 0 && !r.DryRun
	if registered {
		fmt.Fprintf(r.Out, "\nHook %s is registered.\n", r.Registration.Name)
	}
	if r.Registration.StaysDisabled(existing, stock) {
		fmt.Fprintf(r.Out, openpbs.EnableStep+"\n", r.Registration.Name)
	}
	if registered {
		fmt.Fprint(r.Out, openpbs.NextSteps)
	}
	return r.installCgswap(q, all, resources)
}

// installCgswap registers the server's hook that fills in cgswap, and creates the resource unless
// known has it. A hook that is already in all is updated even without --cgswap.
func (r *Registrar) installCgswap(
	q *qmgr, all map[string]*openpbs.Hook, known map[string]*openpbs.Resource,
) error {
	name := r.Registration.CgswapName()
	existing, err := q.hook(all, name)
	if err != nil {
		return err
	}
	if !r.Registration.WantsCgswap(existing) {
		return nil
	}
	list, err := r.Registration.InstallCgswap(existing, known["cgswap"])
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(r.Out, "Hook %s is registered already; nothing differs.\n", name)
		return nil
	}
	if err := r.carryOut(q, list); err != nil || r.DryRun {
		return err
	}
	fmt.Fprintf(r.Out, "\nHook %s is registered.\n%s", name, openpbs.CgswapNextSteps)
	return nil
}

// Uninstall deletes everything that Install created, restores everything that it changed, and waits
// for the nodes. With nativeOnly it only restores pbs_python.
func (r *Registrar) Uninstall(nativeOnly bool) error {
	wasNative, err := r.uninstallNative(nativeOnly)
	if err != nil || nativeOnly {
		return err
	}
	q, all, existing, err := r.open("")
	if errors.Is(err, errNoQmgr) && wasNative {
		fmt.Fprintln(r.Out, "There is no qmgr here. To remove the hook, uninstall on the host of the PBS server.")
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.readDelivered(); err != nil {
		return err
	}
	list, err := r.Registration.Uninstall(existing, all[openpbs.Stock])
	if err != nil {
		return err
	}
	cgswap, err := q.hook(all, r.Registration.CgswapName())
	if err != nil {
		return err
	}
	ours := r.Registration.UninstallCgswap(cgswap)
	list = append(list, ours...)
	if len(list) == 0 {
		said := "There is no hook %s.\n"
		if existing != nil {
			said = "Hook %s is PBS's own already.\n"
		}
		fmt.Fprintf(r.Out, said, r.Registration.Name)
		return nil
	}
	if err := r.carryOut(q, list); err != nil {
		return err
	}
	if len(ours) > 0 {
		fmt.Fprintln(r.Out, "The resource cgswap stays, because jobs and nodes may have it.")
	}
	if r.DryRun {
		return nil
	}
	if r.Registration.Delivered == nil {
		if err := r.removed(r.Registration.Name); err != nil {
			return err
		}
	}
	return r.reach(openpbs.Stock)
}

// readDelivered reads PBS's own hook if ours has its name.
func (r *Registrar) readDelivered() error {
	if r.Registration.Name != openpbs.Stock {
		return nil
	}
	dir, err := r.exec()
	if err == nil {
		r.Registration.Delivered, r.Registration.DeliveredIn, err = openpbs.ReadDelivered(dir)
	}
	return err
}

// exec returns PBS_EXEC.
func (r *Registrar) exec() (string, error) {
	if r.Exec != "" {
		return r.Exec, nil
	}
	conf, err := r.Conf()
	return pbs.Exec(conf), err
}
