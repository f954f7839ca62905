package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Hook is a registered hook. Its file holds the fields that have a toml key.
type Hook struct {
	Name string `toml:"-" json:"name"`
	Attributes

	// Program and Config are absolute paths, "" if not imported yet. SHA256 is the program's
	// checksum. A built-in hook needs none, because its program is installed together with the
	// host.
	Program string `toml:"program" json:"program"`
	SHA256  string `toml:"sha256" json:"sha256,omitempty"`
	Config  string `toml:"config" json:"config,omitempty"`

	Created time.Time `toml:"created" json:"created,omitzero"`

	// BuiltIn means that the hook comes with hookhost and has ConfigData as its configuration.
	BuiltIn    bool   `toml:"-" json:"built_in,omitempty"`
	ConfigData []byte `toml:"-" json:"-"`

	// Fault says why the hook's file cannot be used, or is "". With a fault, the other fields hold
	// only what could be read.
	Fault string `toml:"-" json:"fault,omitempty"`
}

// decodeHook reads a hook's file over h, which holds the defaults.
func decodeHook(b []byte, h *Hook) error {
	f := *h
	if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(&f); err != nil {
		return oneLine(err)
	}
	if h.BuiltIn && (f.Program != h.Program || f.SHA256 != h.SHA256 || f.Config != h.Config) {
		return errors.New("program, sha256 and config of a hook that comes with hookhost cannot be set")
	}
	if f.Type != h.Type {
		return fmt.Errorf("type = %q: want %s", f.Type, h.Type)
	}
	f.fillIn(h.Attributes)
	if err := f.check(); err != nil {
		return err
	}
	for key, path := range map[string]string{"program": f.Program, "config": f.Config} {
		if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
			return fmt.Errorf("%s = %q: want an absolute path in its shortest form", key, path)
		}
	}
	if !h.BuiltIn && f.Program != "" && !checksum.MatchString(f.SHA256) {
		return fmt.Errorf("sha256 = %q: want the program's checksum, 64 digits of 0-9a-f", f.SHA256)
	}
	*h = f
	return nil
}

var checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// oneLine shortens the parser's errors to one line that names the place.
func oneLine(err error) error {
	if strict := (*toml.StrictMissingError)(nil); errors.As(err, &strict) && len(strict.Errors) > 0 {
		line, _ := strict.Errors[0].Position()
		return fmt.Errorf("line %d: unknown key %q", line, strings.Join(strict.Errors[0].Key(), "."))
	}
	if decode := (*toml.DecodeError)(nil); errors.As(err, &decode) {
		line, _ := decode.Position()
		if key := strings.Join(decode.Key(), "."); key != "" {
			return fmt.Errorf("line %d: %s: %s", line, key, strings.TrimPrefix(decode.Error(), "toml: "))
		}
		return fmt.Errorf("line %d: %s", line, strings.TrimPrefix(decode.Error(), "toml: "))
	}
	return err
}

// encode writes all keys of a site's hook. For a built-in hook it writes only those that differ
// from the defaults.
func (r *Registry) encode(h Hook) ([]byte, error) {
	if b, ok := r.builtIn(h.Name); ok {
		return toml.Marshal(h.Attributes.differing(b.Attributes))
	}
	return toml.Marshal(h)
}

// differing returns the attributes, by name, that differ from defaults.
func (a Attributes) differing(defaults Attributes) map[string]any {
	differing := make(map[string]any)
	mine, theirs := reflect.ValueOf(a), reflect.ValueOf(defaults)
	for field := range mine.Type().Fields() {
		value := mine.FieldByIndex(field.Index).Interface()
		if !reflect.DeepEqual(value, theirs.FieldByIndex(field.Index).Interface()) {
			key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
			differing[key] = value
		}
	}
	return differing
}
