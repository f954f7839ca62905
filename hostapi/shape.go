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

// shape is how a JSON text differs from the Go type that it was decoded into: encoding/json tells neither the full
// path of a wrong value inside types with an UnmarshalJSON of their own, nor all keys that it ignored.
type shape struct {
	unknown []keyAt
	wrong   *wrongType // the first one; nil when every value fits
	nul     *keyAt     // the first string with a NUL in it; nil when there is none
}

type keyAt struct {
	path   string
	offset int64
}

// wrongType says which value has not the type that its key asks for.
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
	w := walker{text: text}
	w.value(t)
	return w.shape
}

// walker relies on text being valid JSON: it looks only for where values end.
type walker struct {
	shape
	text []byte
	pos  int
	path []string
}

func (w *walker) value(t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := w.peek()
	switch {
	case t == nil || c == 'n':
		w.skip()
		return
	case t == resourcesType:
		w.object(nil, resourceValue)
		return
	case t == resourceValue:
		w.scalar(c != '{' && c != '[', "string, number or boolean")
		return
	case isOpaque(t):
		w.skip()
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		w.object(fieldsOf(t), nil)
	case reflect.Map:
		w.object(nil, t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			w.scalar(c == '"', "string")
			return
		}
		w.array(t.Elem())
	case reflect.String:
		w.scalar(c == '"', "string")
	case reflect.Bool:
		w.scalar(c == 't' || c == 'f', "boolean")
	case reflect.Float32, reflect.Float64:
		w.scalar(isNumber(c), "number")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.integer(t, c)
	default:
		w.skip()
	}
}

// object walks the members; each has its type from fields, or all have the type elem.
func (w *walker) object(fields map[string]reflect.Type, elem reflect.Type) {
	if w.peek() != '{' {
		w.scalar(false, "object")
		return
	}
	w.pos++
	for w.peek() != '}' {
		start := int64(w.pos)
		name := w.key()
		if w.nul == nil && strings.ContainsRune(name, 0) {
			w.nul = &keyAt{joinKey(append(w.path, name)), start}
		}
		t, known := elem, true
		if fields != nil {
			t, known = fieldNamed(fields, name)
		}
		w.path = append(w.path, name)
		switch {
		case known && fields == nil:
			w.element(t)
		case known:
			w.value(t)
		default:
			w.unknown = append(w.unknown, keyAt{joinKey(w.path), start})
			w.skip()
		}
		w.path = w.path[:len(w.path)-1]
		if w.peek() == ',' {
			w.pos++
		}
	}
	w.pos++
}

// element walks one of many. A null in place of a string would become an empty string: there is no absent element.
func (w *walker) element(t reflect.Type) {
	if t.Kind() == reflect.String && t != resourceValue && w.peek() == 'n' {
		w.scalar(false, "string")
		return
	}
	w.value(t)
}

// key reads a member's name and the colon after it.
func (w *walker) key() string {
	start := w.pos
	w.skip()
	quoted := w.text[start:w.pos]
	w.peek()
	w.pos++
	return unquote(quoted)
}

// unquote reads a string of valid JSON.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid JSON cannot fail
	return s
}

func (w *walker) array(elem reflect.Type) {
	if w.peek() != '[' {
		w.scalar(false, "array")
		return
	}
	w.pos++
	for i := 0; w.peek() != ']'; i++ {
		w.path = append(w.path, "["+strconv.Itoa(i)+"]")
		w.element(elem)
		w.path = w.path[:len(w.path)-1]
		if w.peek() == ',' {
			w.pos++
		}
	}
	w.pos++
}

// scalar passes over a value that fits or not.
func (w *walker) scalar(fits bool, want string) {
	start := w.pos
	w.skip()
	if !fits && w.wrong == nil {
		w.wrong = &wrongType{keyAt{joinKey(w.path), int64(start)}, want, kindOfJSON(w.text[start])}
	}
	if text := w.text[start:w.pos]; text[0] == '"' && w.nul == nil && bytes.Contains(text, []byte("u0000")) {
		if strings.ContainsRune(unquote(text), 0) {
			w.nul = &keyAt{joinKey(w.path), int64(start)}
		}
	}
}

func (w *walker) integer(t reflect.Type, c byte) {
	start := w.pos
	w.scalar(isNumber(c), "number")
	if !isNumber(c) || w.wrong != nil {
		return
	}
	number := string(w.text[start:w.pos])
	var err error
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		_, err = strconv.ParseUint(number, 10, t.Bits())
	} else {
		_, err = strconv.ParseInt(number, 10, t.Bits())
	}
	if err != nil {
		w.wrong = &wrongType{keyAt{joinKey(w.path), int64(start)}, fmt.Sprintf("whole number of %d bits", t.Bits()), number}
	}
}

// peek passes over white space and returns the byte that follows.
func (w *walker) peek() byte {
	for w.pos < len(w.text) {
		switch c := w.text[w.pos]; c {
		case ' ', '\t', '\r', '\n':
			w.pos++
		default:
			return c
		}
	}
	return 0
}

// skip passes over one value.
func (w *walker) skip() {
	depth := 0
	for w.pos < len(w.text) {
		switch c := w.peek(); c {
		case '{', '[':
			depth++
			w.pos++
		case '}', ']':
			depth--
			w.pos++
		case ',', ':':
			w.pos++
			continue
		case '"':
			w.pos++
			for w.text[w.pos] != '"' {
				if w.text[w.pos] == '\\' {
					w.pos++
				}
				w.pos++
			}
			w.pos++
		default:
			for w.pos < len(w.text) && !strings.ContainsRune(",:]} \t\r\n", rune(w.text[w.pos])) {
				w.pos++
			}
		}
		if depth == 0 {
			return
		}
	}
}

func isNumber(c byte) bool { return c == '-' || c >= '0' && c <= '9' }

func kindOfJSON(c byte) string {
	switch {
	case c == '{':
		return "object"
	case c == '[':
		return "array"
	case c == '"':
		return "string"
	case c == 't' || c == 'f':
		return "boolean"
	case isNumber(c):
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
