// Package qmgr registers hookhost with the PBS server of this host.
package qmgr

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/integrations/openpbs"
)

// qmgr is PBS's program that changes the server's hooks. It does so only for root on the server's
// host.
type qmgr struct{ program string }

var errNoQmgr = errors.New("no qmgr here")

// find finds the program: the named one, else the one in PATH, else the one of PBS_EXEC. Users
// other than root get an error, as from PBS.
func (r *Registrar) find() (*qmgr, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may change PBS's hooks: run it as root on the host of the PBS server")
	}
	if r.Qmgr != "" {
		return &qmgr{r.Qmgr}, nil
	}
	if path, err := exec.LookPath("qmgr"); err == nil {
		return &qmgr{path}, nil
	}
	dir, err := r.exec()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "bin/qmgr")
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w (PATH, %s): run it on the host of the PBS server", errNoQmgr, path)
	}
	return &qmgr{path}, nil
}

// open finds qmgr, and reads all hooks and the one with the registration's name. If there is no
// qmgr, the error names the command that prints an equivalent script.
func (r *Registrar) open(command string) (q *qmgr, all map[string]*openpbs.Hook, existing *openpbs.Hook, err error) {
	q, err = r.find()
	switch {
	case errors.Is(err, errNoQmgr) && command != "":
		return nil, nil, nil, fmt.Errorf("%w, or there what '%s' prints", err, command)
	case err != nil:
		return nil, nil, nil, err
	}
	if all, err = q.list(); err != nil {
		return nil, nil, nil, err
	}
	existing, err = q.hook(all, r.Registration.Name)
	return q, all, existing, err
}

// run carries out one directive and returns its output. Its messages on standard error become the
// error.
func (q *qmgr) run(directive string, input []byte) (string, error) {
	cmd := exec.Command(q.program, "-c", directive)
	cmd.Stdin = bytes.NewReader(input)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	// On a host other than the server's, `list hook` is refused, but qmgr exits with 0.
	if refused := strings.Contains(complaints.String(), "unauthorized"); err != nil || refused {
		text := strings.Join(strings.FieldsFunc(complaints.String(), func(r rune) bool { return r == '\n' }), "; ")
		if text == "" {
			text = err.Error()
		}
		switch {
		case strings.Contains(text, "pending delete"):
			text += " (PBS deletes a hook once the pbs_mom of every node has confirmed it: nodes that are down keep it)"
		case strings.Contains(text, "cannot connect"):
			text += " (is the PBS server up?)"
		case refused || strings.Contains(text, "hook_tempfile"):
			text += " (hooks are changed on the host of the PBS server)"
		}
		return "", fmt.Errorf("qmgr -c %q: %s", directive, text)
	}
	return out.String(), nil
}

// list returns all hooks without their scripts, by name. It is not an error if there are none, but
// it is if the server is down.
func (q *qmgr) list() (map[string]*openpbs.Hook, error) {
	text, err := q.run("list hook", nil)
	if err != nil {
		return nil, err
	}
	return openpbs.ParseList(text), nil
}

// hook returns the hook of that name with its script, or nil if it is not in all.
func (q *qmgr) hook(all map[string]*openpbs.Hook, name string) (*openpbs.Hook, error) {
	if all[name] == nil {
		return nil, nil
	}
	text, err := q.run("print hook "+name, nil)
	if err != nil {
		return nil, err
	}
	return openpbs.ParsePrint(text)
}

// resources returns the server's custom resources, by name.
func (q *qmgr) resources() (map[string]*openpbs.Resource, error) {
	text, err := q.run("list resource", nil)
	if err != nil {
		return nil, err
	}
	return openpbs.ParseResources(text), nil
}

// others returns the enabled hooks of all with their scripts, except the one of that name.
func (q *qmgr) others(all map[string]*openpbs.Hook, name string) ([]*openpbs.Hook, error) {
	var others []*openpbs.Hook
	for _, h := range all {
		if h.Name == name || !h.Enabled() {
			continue
		}
		h, err := q.hook(all, h.Name)
		if err != nil {
			return nil, err
		}
		others = append(others, h)
	}
	return others, nil
}

// carryOut carries out and prints one directive after the other. If one fails, the earlier ones are
// not undone. The next Install or Uninstall continues from there.
func (r *Registrar) carryOut(q *qmgr, list []openpbs.Command) error {
	for _, c := range list {
		if !r.DryRun {
			if err := r.settle(c.Directive); err != nil {
				return err
			}
			if _, err := q.run(c.Directive, c.Input); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(r.Out, "qmgr -c '"+c.Directive+"'"); err != nil {
			return err
		}
	}
	return nil
}
