package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Load reads the file at path, which must exist, over the defaults, and evaluates its conditions
// for here. Errors name the file, the line and the key.
func Load(path string, here Here) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	f, err := Parse(text, here)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return f, nil
}

// Parse reads the text of a configuration file over the defaults and checks it. Its conditions are
// evaluated for here, or for its host.node.
func Parse(text []byte, here Here) (*File, error) {
	node, _ := stringAt(text, "host", "node")
	here.Host = cmp.Or(node, here.Host)
	f := Default()
	f.text, f.here = text, here
	if err := f.decode(); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

var errJSON = errors.New("want TOML, not JSON: 'hookhost config import' converts a configuration of pbs_cgroups")

// decode sets the keys of the text, and no others.
func (f *File) decode() error {
	if bytes.HasPrefix(bytes.TrimSpace(f.text), []byte("{")) { // as no TOML does
		return errJSON
	}
	b, _, err := resolve(f.text, f.here)
	if err != nil {
		return err
	}
	if err := errors.Join(rlimitNumber(b), notText(b)); err != nil {
		return err
	}
	if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(f); err != nil {
		return oneLine(b, err)
	}
	return checkShim(f.text)
}

// For returns the configuration from the same text for another vntype or host. It does not read the
// file again.
func (f *File) For(here Here) (*File, error) { return Parse(f.text, here) }

// CheckSent refuses settings of a node's own file in a text that PBS sends to all nodes. These are
// the location of PBS's files and the node's name.
func CheckSent(text []byte) error {
	return forbid(text, "only the configuration of a node itself can say it", "openpbs", "host.node")
}

// CheckOwn refuses settings of the shim in a node's own file, because the shim does not read that
// file.
func CheckOwn(text []byte) error {
	return forbid(text, "the shim reads it only where PBS has sent it: hookhost openpbs config", "shim")
}

// forbid returns an error for the first value whose key, or table, is one of names.
func forbid(text []byte, why string, names ...string) (err error) {
	walk(text, func(key []string, line int, _ *unstable.Node) {
		if err == nil && under(key, names) {
			err = fmt.Errorf("line %d: %s: %s", line, strings.Join(key, "."), why)
		}
	})
	return err
}

// under reports whether a key is one of names, or in a table that is one of them.
func under(key []string, names []string) bool {
	path := strings.ToLower(strings.Join(key, ".")) + "."
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(path, name+".") })
}
