package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hookhost/hookhost/internal/pbs"
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

// sizeKinds are the kinds of values about which the decoder says what is wrong with a size.
var sizeKinds = []unstable.Kind{unstable.String, unstable.Integer, unstable.Array}

// notText returns an error for a duration that was written as a number, and for a size that is
// neither text nor a whole number. The decoder takes the former for nanoseconds. It does not name
// the place of the latter.
func notText(b []byte) (err error) {
	walkAll(b, func(key []string, line int, value *unstable.Node) {
		want, number := "", value.Kind == unstable.Integer || value.Kind == unstable.Float
		switch t := typeAt(reflect.TypeFor[File](), key); {
		case t == reflect.TypeFor[Duration]() && number:
			want = `a duration with its unit, such as "10s"`
		case t == reflect.TypeFor[pbs.Size]() && !slices.Contains(sizeKinds, value.Kind):
			want = `a size, such as "1gb"`
		}
		if want != "" && err == nil {
			err = fmt.Errorf("line %d: %s = %s: want %s", line, strings.Join(key, "."), value.Data, want)
		}
	})
	return err
}
