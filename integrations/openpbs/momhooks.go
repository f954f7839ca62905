package openpbs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MoMHooks is the directory in which a pbs_mom stores the hooks that the server has sent: NAME.PY
// is the script, NAME.HK the attributes and NAME.CF the configuration (openpbs
// src/resmom/requests.c, req_copy_hookfile).
type MoMHooks string

// HooksOf returns the directory of the pbs_mom with that home.
func HooksOf(home string) MoMHooks { return MoMHooks(filepath.Join(home, "mom_priv", "hooks")) }

// Script returns the path of a hook's script.
func (d MoMHooks) Script(name string) string { return filepath.Join(string(d), name+".PY") }

// Config returns the path of a hook's configuration.
func (d MoMHooks) Config(name string) string { return filepath.Join(string(d), name+".CF") }

// Resources returns the path of the file with the server's custom resources. The directory's path
// is not cleaned, because it may lead through the working directory of a process.
func (d MoMHooks) Resources() string { return string(d) + "/resourcedef" }

// Ours returns the name of the hook whose script is hookhost's, preferably of an enabled one, or
// "". It fails if the directory or a script cannot be read.
func (d MoMHooks) Ours() (string, error) {
	names, err := d.AllOurs()
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[max(0, slices.IndexFunc(names, d.Enabled))], nil
}

// AllOurs returns the names of all hooks whose scripts are hookhost's. It fails like Ours.
func (d MoMHooks) AllOurs() (names []string, err error) {
	files, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name, isScript := strings.CutSuffix(f.Name(), ".PY")
		if !isScript || !f.Type().IsRegular() {
			continue
		}
		ours, err := isOurs(d.Script(name))
		if err != nil {
			return nil, err
		}
		if ours {
			names = append(names, name)
		}
	}
	return names, nil
}

// isOurs reports whether a script is hookhost's, from its first line alone. A script that MoM has
// just deleted is not.
func isOurs(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 256))
	_, ours := Ours(head)
	return ours, err
}

// Hook returns the attributes of a hook as the server has sent them.
func (d MoMHooks) Hook(name string) (*Hook, error) {
	text, err := os.ReadFile(filepath.Join(string(d), name+".HK"))
	if err != nil {
		return nil, err
	}
	return ParseControl(name, text), nil
}

// Enabled reports whether MoM calls a hook. A missing hook is not enabled.
func (d MoMHooks) Enabled(name string) bool {
	h, err := d.Hook(name)
	return err == nil && h.Enabled()
}
