package hostapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// keyAt is a key with the offset, in the line of text, at which it stands.
type keyAt struct {
	path   string
	offset int64
}

// compare walks text along t, into which encoding/json has decoded it. It returns the keys that
// encoding/json ignores. The error names the first value that encoding/json accepts but no program
// can use. Such a value is a string with a NUL byte, or a null among strings, which would become an
// empty string.
func compare(text []byte, t reflect.Type) (unknown []keyAt, err error) {
	w := walker{dec: json.NewDecoder(bytes.NewReader(text))}
	w.value(t, false)
	return w.unknown, w.err
}

// walker moves from token to token. Errors of the decoder are ignored because the text is valid.
type walker struct {
	dec     *json.Decoder
	path    []string
	unknown []keyAt
	err     error
}

// value walks the next value, of type t. A nil type accepts anything. element means that the value
// is one of many of its type.
func (w *walker) value(t reflect.Type, element bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || isOpaque(t) {
		var skipped json.RawMessage
		w.dec.Decode(&skipped)
		return
	}
	switch token, _ := w.dec.Token(); token := token.(type) {
	case json.Delim:
		w.children(token == '{', t)
	case string:
		w.checkNUL(token)
	case nil:
		if element && t.Kind() == reflect.String {
			w.fail("want string, got null")
		}
	}
}

// children walks the members of an object or the elements of an array whose first token was read.
func (w *walker) children(object bool, t reflect.Type) {
	for i := 0; w.dec.More(); i++ {
		name, of, known := "["+strconv.Itoa(i)+"]", t, true
		if object {
			token, _ := w.dec.Token()
			name, _ = token.(string)
		}
		if t.Kind() == reflect.Struct {
			of, known = fieldNamed(fieldsOf(t), name)
		} else {
			of = t.Elem()
		}
		w.path = append(w.path, name)
		w.checkNUL(name)
		if !known {
			w.unknown = append(w.unknown, keyAt{joinKey(w.path), w.dec.InputOffset()})
		}
		w.value(of, t.Kind() != reflect.Struct && t != reflect.TypeFor[Resources]())
		w.path = w.path[:len(w.path)-1]
	}
	w.dec.Token()
}

func (w *walker) checkNUL(text string) {
	if strings.ContainsRune(text, 0) {
		w.fail("holds a NUL byte")
	}
}

func (w *walker) fail(why string) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", joinKey(w.path), why)
	}
}

// isOpaque reports whether a type itself decides what it accepts. The types of a Request also do,
// but only for defaults and alternative spellings.
func isOpaque(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Job](), reflect.TypeFor[Owner](), reflect.TypeFor[Resources]():
		return false
	}
	p := reflect.PointerTo(t)
	return t.Kind() == reflect.Interface || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]())
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
		m[cmp.Or(name, f.Name)] = f.Type
	}
	fieldCache.Store(t, m)
	return m
}

// fieldNamed finds a field as encoding/json does: by its exact name, else ignoring case.
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

// wrongType rephrases an error of encoding/json in terms of JSON's types.
func wrongType(e *json.UnmarshalTypeError) error {
	want, got := kindOf(e.Type), e.Value
	if number, isNumber := strings.CutPrefix(got, "number "); isNumber {
		want, got = fmt.Sprintf("whole number of %d bits", e.Type.Bits()), number
	}
	if got == "bool" {
		got = "boolean"
	}
	return fmt.Errorf("%s: want %s, got %s", cmp.Or(e.Field, "the whole text"), want, got)
}

// kindOf returns the kind of JSON value that a type needs.
func kindOf(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.Struct, kind == reflect.Map:
		return "object"
	case kind == reflect.String, kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "string"
	case kind == reflect.Slice, kind == reflect.Array:
		return "array"
	case kind == reflect.Bool:
		return "boolean"
	}
	return "number"
}

// joinKey formats a path of keys as job.owner.uid or argv[2].
func joinKey(path []string) string {
	var b strings.Builder
	for _, p := range path {
		if b.Len() > 0 && !strings.HasPrefix(p, "[") {
			b.WriteByte('.')
		}
		if strings.ContainsFunc(p, isOdd) {
			p = strconv.Quote(p)
		}
		b.WriteString(p)
	}
	return b.String()
}

func isOdd(r rune) bool { return r == '.' || r == '"' || !unicode.IsPrint(r) }
