package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Layer is the text of one configuration file. Errors and `config show` use its name, "" for a text
// without one.
type Layer struct {
	Name string
	Text []byte
}

// Load reads the file at path, which must exist, over the defaults, and evaluates its conditions
// for here. Errors name the file, the line and the key.
func Load(path string, here Here) (*File, error) {
	own, err := ReadLayer(path, true, os.ReadFile)
	if err != nil {
		return nil, err
	}
	return Merge(here, own...)
}

// ReadLayer calls read for the file at path and returns its text, unchecked, as a layer. If the
// file is missing, there is no layer, or an error if must is set.
func ReadLayer(path string, must bool, read func(path string) ([]byte, error)) ([]Layer, error) {
	b, err := read(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return []Layer{{Name: path, Text: b}}, nil
}

// Parse reads the text of a configuration file over the defaults, evaluates its conditions for here
// and checks it.
func Parse(text []byte, here Here) (*File, error) { return Merge(here, Layer{Text: text}) }

// Merge reads the layers over the defaults, one over the other, and checks the result. The last
// layer that sets a key wins, separately for each key; all [[device]] tables together are one key.
// Conditions are evaluated for here, or for host.node of the last layer that sets it.
func Merge(here Here, layers ...Layer) (*File, error) {
	f := Default()
	f.layers = layers
	for _, l := range layers {
		node, _ := stringAt(l.Text, "host", "node")
		here.Host = cmp.Or(node, here.Host)
	}
	f.here = here
	for _, l := range layers {
		if err := f.decode(l.Text, here); err != nil {
			return nil, l.wrap(err)
		}
	}
	if err := f.check(); err != nil {
		if len(layers) == 1 {
			return nil, layers[0].wrap(err)
		}
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return f, nil
}

func (l Layer) wrap(err error) error {
	if l.Name == "" {
		return err
	}
	return fmt.Errorf("configuration %s: %w", l.Name, err)
}

// decode sets the keys of a text in f, and no others.
func (f *File) decode(text []byte, here Here) error {
	b, _, err := resolve(text, here)
	if err != nil {
		return err
	}
	if err := errors.Join(rlimitNumber(b), unitless(b)); err != nil {
		return err
	}
	if sets(b, "device") {
		f.Device = nil
	}
	if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(f); err != nil {
		return oneLine(err)
	}
	return checkShim(text)
}

// For returns the configuration from the same texts for another vntype or host. It does not read
// the files again.
func (f *File) For(here Here) (*File, error) { return Merge(here, f.layers...) }

// Layers returns the layers of the configuration, without the defaults.
func (f *File) Layers() []Layer { return f.layers }

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

// sets reports whether a text sets the key of that name, or a key in a table of that name.
func sets(text []byte, name string) bool { return forbid(text, "", name) != nil }
