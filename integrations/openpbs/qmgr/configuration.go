package qmgr

import (
	"bytes"
	"fmt"

	"github.com/hookhost/hookhost/integrations/openpbs"
)

// Configuration prints PBS's configuration for all nodes.
func (r *Registrar) Configuration() error {
	_, _, existing, err := r.open("hookhost openpbs config --print FILE")
	if err != nil {
		return err
	}
	if existing == nil {
		return fmt.Errorf("there is no hook %s", r.Registration.Name)
	}
	text := existing.Config
	if len(text) == 0 {
		text = []byte(openpbs.NoConfig)
	}
	_, err = r.Out.Write(text)
	return err
}

// Configure gives PBS the configuration of all nodes, or removes it if text is nil, and waits for
// the nodes. Idempotent.
func (r *Registrar) Configure(text []byte) error {
	q, _, existing, err := r.open("hookhost openpbs config --print FILE")
	if err != nil {
		return err
	}
	list, err := r.Registration.Configure(existing, text)
	if err != nil {
		return err
	}
	if len(list) == 0 || existing.Config == nil && bytes.Equal(text, []byte(openpbs.NoConfig)) {
		fmt.Fprintln(r.Out, "PBS already has this configuration.")
		return nil
	}
	if err := r.carryOut(q, list); err != nil || r.DryRun {
		return err
	}
	if err := r.reach(r.Registration.Name); err != nil {
		return err
	}
	const sent = "PBS has sent it to the nodes. There it takes effect at the next event: see hookhost doctor."
	fmt.Fprintln(r.Out, sent)
	return nil
}
