package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/spelling"
)

// CheckJob returns an error if the text is not a JSON object of a Job's keys (see Options.Job). A
// misspelt key would leave the hook untested.
func CheckJob(text []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return err
	}
	if wrong := unknownKeys(text, reflect.TypeFor[hostapi.Job](), ""); len(wrong) > 0 {
		return errors.New(strings.ReplaceAll(strings.Join(wrong, ", "), ": ignored", ""))
	}
	return nil
}

// unknownKeys names the keys of JSON that the type does not have, at all depths, each with the key
// that was probably meant. path is in front of their names. JSON of another type than t has none.
func unknownKeys(text []byte, t reflect.Type, path string) (wrong []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var keys map[string]json.RawMessage
	switch {
	case t.Kind() == reflect.Map && json.Unmarshal(text, &keys) == nil:
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			wrong = append(wrong, unknownKeys(keys[key], t.Elem(), path+key+".")...)
		}
	case t.Kind() == reflect.Struct && json.Unmarshal(text, &keys) == nil:
		types, names := map[string]reflect.Type{}, []string{}
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			types[strings.ToLower(name)] = field.Type // encoding/json ignores case
			names = append(names, name)
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if known := types[strings.ToLower(key)]; known != nil {
				wrong = append(wrong, unknownKeys(keys[key], known, path+key+".")...)
			} else {
				wrong = append(wrong, unknownKey(path+hostapi.Clip(key, 64), spelling.Nearest(key, names)))
			}
		}
	}
	return wrong
}

func unknownKey(key, meant string) string {
	if meant == "" {
		return fmt.Sprintf("unknown key %q: ignored", key)
	}
	return fmt.Sprintf("unknown key %q: ignored; did you mean %s?", key, meant)
}
