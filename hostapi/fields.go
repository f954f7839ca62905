package hostapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

var (
	resourcesType = reflect.TypeFor[Resources]()
	// resourceValue stands for what a value of Resources may be.
	resourceValue = reflect.TypeFor[resourceScalar]()

	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
)

type resourceScalar string

// isOpaque tells whether a type decides itself what it takes. The types of a Request do too, but only to set defaults.
func isOpaque(t reflect.Type) bool {
	switch {
	case t.PkgPath() == "" && t.Kind() != reflect.Struct: // a type without methods
		return false
	case t == reflect.TypeFor[Job](), t == reflect.TypeFor[Owner]():
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(unmarshaler) || p.Implements(textUnmarshaler)
}

var fieldCache sync.Map // reflect.Type of a struct -> map[string]reflect.Type

// fieldsOf returns the JSON names of a struct's fields with their types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if m, ok := fieldCache.Load(t); ok {
		return m.(map[string]reflect.Type)
	}
	m := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		m[name] = f.Type
	}
	fieldCache.Store(t, m)
	return m
}

// fieldNamed finds a field as encoding/json does: by its exact name, else without regard to case.
func fieldNamed(fields map[string]reflect.Type, name string) (reflect.Type, bool) {
	if t, ok := fields[name]; ok {
		return t, true
	}
	for n, t := range fields {
		if strings.EqualFold(n, name) {
			return t, true
		}
	}
	return nil, false
}
