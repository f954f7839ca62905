package hostapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// shape is how a JSON text differs from the Go type that it was decoded into. encoding/json gives
// neither the path of a wrong value below a type with an UnmarshalJSON of its own or in an array, nor
// all keys that it ignored.
type shape struct {
	unknown []keyAt
	wrong   *wrongType // the first one; nil when every value fits
	nul     string     // the path of the first string with a NUL in it; "" when there is none
}

// keyAt is a key, and an offset in the line of the text where it stands.
type keyAt struct {
	path   string
	offset int64
}

// wrongType is a value of a type other than its key asks for.
type wrongType struct {
	keyAt
	want, got string
}

func (w *wrongType) Error() string {
	path := w.path
	if path == "" {
		path = "the whole text"
	}
	return fmt.Sprintf("%s: want %s, got %s", path, w.want, w.got)
}

// compare walks text, which must be valid JSON, along t.
func compare(text []byte, t reflect.Type) shape {
	w := walker{dec: json.NewDecoder(bytes.NewReader(text))}
	w.dec.UseNumber()
	w.value(t, false)
	return w.shape
}

// walker goes from token to token. Errors of the decoder are passed over: the text is valid.
type walker struct {
	shape
	dec  *json.Decoder
	path []string
}

func (w *walker) here() keyAt { return keyAt{joinKey(w.path), w.dec.InputOffset()} }

// value compares the next value with t; anything fits nil. element is set for one of many values of a
// type: a null there would become an empty string.
func (w *walker) value(t reflect.Type, element bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want, fields, elem := formOf(t)
	if want == "" {
		var skipped json.RawMessage
		w.dec.Decode(&skipped)
		return
	}
	token, _ := w.dec.Token()
	got := kindOf(token)
	fits := got == want || got == "null" && !(element && want == "string") ||
		t == resourceValue && got != "object" && got != "array"
	if !fits {
		w.mismatch(want, got)
		fields, elem = nil, nil
	}
	switch token := token.(type) {
	case json.Delim:
		w.children(token == '{', fields, elem)
	case string:
		w.checkNUL(token)
	case json.Number:
		if fits {
			w.integer(t, string(token))
		}
	}
}

func (w *walker) mismatch(want, got string) {
	if w.wrong == nil {
		w.wrong = &wrongType{w.here(), want, got}
	}
}

// formOf returns the kind of JSON that a type asks for, "" for any. Members of an object are the
// fields, or they and the elements of an array are all of type elem.
func formOf(t reflect.Type) (want string, fields map[string]reflect.Type, elem reflect.Type) {
	switch {
	case t == nil:
		return "", nil, nil
	case t == resourcesType:
		return "object", nil, resourceValue
	case t == resourceValue:
		return "string, number or boolean", nil, nil
	case isOpaque(t):
		return "", nil, nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		return "object", fieldsOf(t), nil
	case kind == reflect.Map:
		return "object", nil, t.Elem()
	case kind == reflect.String, kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "string", nil, nil
	case kind == reflect.Slice, kind == reflect.Array:
		return "array", nil, t.Elem()
	case kind == reflect.Bool:
		return "boolean", nil, nil
	case kind >= reflect.Int && kind <= reflect.Float64:
		return "number", nil, nil
	}
	return "", nil, nil
}

// children compares the members of an object or the elements of an array whose first token was read.
func (w *walker) children(object bool, fields map[string]reflect.Type, elem reflect.Type) {
	for i := 0; w.dec.More(); i++ {
		t, known, name := elem, true, "["+strconv.Itoa(i)+"]"
		if object {
			token, _ := w.dec.Token()
			name, _ = token.(string)
		}
		if fields != nil {
			t, known = fieldNamed(fields, name)
		}
		w.path = append(w.path, name)
		w.checkNUL(name)
		if !known {
			w.unknown = append(w.unknown, w.here())
		}
		w.value(t, fields == nil)
		w.path = w.path[:len(w.path)-1]
	}
	w.dec.Token()
}

func (w *walker) checkNUL(text string) {
	if w.nul == "" && strings.ContainsRune(text, 0) {
		w.nul = joinKey(w.path)
	}
}

// integer checks that a number fits into a type that is for whole numbers.
func (w *walker) integer(t reflect.Type, number string) {
	var err error
	switch kind := t.Kind(); {
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		_, err = strconv.ParseUint(number, 10, t.Bits())
	case kind >= reflect.Int && kind <= reflect.Int64:
		_, err = strconv.ParseInt(number, 10, t.Bits())
	}
	if err != nil {
		w.mismatch(fmt.Sprintf("whole number of %d bits", t.Bits()), number)
	}
}

// kindOf returns the kind of JSON that a token is of, or begins.
func kindOf(token json.Token) string {
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return "object"
		}
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number, float64:
		return "number"
	}
	return "null"
}

// joinKey writes a path of keys as job.owner.uid or argv[2].
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
