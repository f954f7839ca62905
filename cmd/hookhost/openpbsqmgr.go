package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// qmgr is PBS's program that changes the server's hooks. It does so on the server's host alone, and for root alone.
type qmgr struct{ program string }

var errNoQmgr = errors.New("no qmgr here")

// findQmgr finds the program: the named one, the one in PATH, the one of PBS_EXEC. It fails for
// others than root, as PBS would. Script is the command that prints a script which does the same
// without hookhost; empty for none.
func (c *cli) findQmgr(named, script string) (*qmgr, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may register hooks: run it as root")
	}
	if named != "" {
		return &qmgr{named}, nil
	}
	if path, err := exec.LookPath("qmgr"); err == nil {
		return &qmgr{path}, nil
	}
	conf, err := c.pbsConf()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(pbs.Exec(conf), "bin/qmgr")
	if _, err := os.Stat(path); err != nil {
		advice := "run it on the host of the PBS server"
		if script != "" {
			advice += ", or there what '" + script + "' prints"
		}
		return nil, fmt.Errorf("%w (PATH, %s): %s", errNoQmgr, path, advice)
	}
	return &qmgr{path}, nil
}

// run carries out one directive, and returns what it printed. Its complaints are the error.
func (q *qmgr) run(directive string, input []byte) (string, error) {
	cmd := exec.Command(q.program, "-c", directive)
	cmd.Stdin = bytes.NewReader(input)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	// A qmgr on another host than the server's says of `list hook` that it is refused, and exits with 0.
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

// hooks returns the hook of that name with its script, and pbs_cgroups without: nil where there is none. The list of all is asked for
// first, which is no error where there are none, and is one where the server is down.
func (q *qmgr) hooks(name string) (existing, stock *openpbs.Hook, err error) {
	text, err := q.run("list hook", nil)
	if err != nil {
		return nil, nil, err
	}
	all := openpbs.ParseList(text)
	if all[name] != nil {
		if existing, err = q.hook(name); err != nil {
			return nil, nil, err
		}
	}
	return existing, all[openpbs.Stock], nil
}

// hook returns a hook with its script.
func (q *qmgr) hook(name string) (*openpbs.Hook, error) {
	text, err := q.run("print hook "+name, nil)
	if err != nil {
		return nil, err
	}
	return openpbs.ParsePrint(text)
}

// resources returns the custom resources of the server, by their names.
func (q *qmgr) resources() (map[string]*openpbs.Resource, error) {
	text, err := q.run("list resource", nil)
	if err != nil {
		return nil, err
	}
	return openpbs.ParseResources(text), nil
}

// others returns the hooks that are enabled, with their scripts, less the one of that name and pbs_cgroups.
func (q *qmgr) others(name string) ([]*openpbs.Hook, error) {
	text, err := q.run("list hook", nil)
	if err != nil {
		return nil, err
	}
	var others []*openpbs.Hook
	for _, h := range openpbs.ParseList(text) {
		if h.Name == name || h.Name == openpbs.Stock || !h.Enabled() {
			continue
		}
		if h, err = q.hook(h.Name); err != nil {
			return nil, err
		}
		others = append(others, h)
	}
	return others, nil
}

// carryOut does one directive after the other and says so. What was done before one that fails stays done; doing it again goes on there.
func (q *qmgr) carryOut(out io.Writer, list []openpbs.Command, dryRun bool) error {
	for _, c := range list {
		if !dryRun {
			if _, err := q.run(c.Directive, c.Input); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(out, "qmgr -c '"+c.Directive+"'"); err != nil {
			return err
		}
	}
	return nil
}
