package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Duration is a time.Duration that is read and written as text ("10s").
type Duration time.Duration

// UnmarshalText reads Go's notation ("1m30s"); it rejects negative durations.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration such as 10s", b)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes Go's notation.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// unitless returns an error for a duration that was written as a number, which the decoder takes
// for nanoseconds.
func unitless(b []byte) (err error) {
	walk(b, func(key []string, line int, value *unstable.Node) {
		number := value.Kind == unstable.Integer || value.Kind == unstable.Float
		if err == nil && number && typeAt(reflect.TypeFor[File](), key) == reflect.TypeFor[Duration]() {
			err = fmt.Errorf("line %d: %s = %s: want a duration with its unit, such as \"10s\"",
				line, strings.Join(key, "."), value.Data)
		}
	})
	return err
}
