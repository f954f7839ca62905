package hostapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Each field of an outcome is passed over unless it is one of those that are listed here.
func TestOwnersPartOfAnOutcome(t *testing.T) {
	his := []string{"reject", "message", "job_action", "job_stderr", "state"}
	for field := range reflect.TypeFor[Outcome]().Fields() {
		o := new(Outcome)
		fill(t, reflect.ValueOf(o).Elem().FieldByIndex(field.Index))
		b, err := json.Marshal(o)
		must.NoError(t, err)
		var keys map[string]any
		if err := json.Unmarshal(b, &keys); err != nil || len(keys) != 1 {
			t.Fatalf("%s: %s: %v", field.Name, b, err)
		}
		for key := range keys {
			own, rest := o.OfOwner()
			counts := !reflect.ValueOf(*own).IsZero()
			if want := slices.Contains(his, key); counts != want || slices.Contains(rest, key) == want {
				t.Errorf("%s: counts: %v, passed over: %v, want it to count: %v", key, counts, rest, want)
			}
		}
	}
}

// fill gives a field some value that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte("1"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	default:
		t.Fatalf("no value for a %s", v.Kind())
	}
}
