package pbscgroups

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is a type of JSON, in the words of errors.
type kind string

const (
	null   kind = "null"
	truth  kind = "true or false"
	number kind = "a number"
	text   kind = "a string"
	list   kind = "a list"
	table  kind = "an object"
)

// value is a value of JSON with the line that it begins in; encoding/json tells neither lines nor
// keys that are there twice.
type value struct {
	kind    kind
	line    int    // counted from 1; 0 for a default of the stock hook
	scalar  string // of a string without quotes, of a number and of true and false as they are written
	items   []value
	members []member
}

// member is a key of an object, in the order of the file.
type member struct {
	key   string
	value value
}

// maxDepth is far more than a configuration nests, and far less than the stack holds.
const maxDepth = 32

// parse reads a text that is one JSON object. parse fails on what Python's json.load fails on in
// the stock hook. A key that is there twice is an error too, where json.load takes the last.
func parse(b []byte) (value, error) {
	if !utf8.Valid(b) {
		return value{}, errors.New("not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(b, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return value{}, fmt.Errorf("line %d: %w", 1+bytes.Count(b[:min(int(syntax.Offset), len(b))], []byte{'\n'}),
				syntax)
		}
		return value{}, err
	}
	p := parser{text: b, dec: json.NewDecoder(bytes.NewReader(b)), line: 1}
	p.dec.UseNumber()
	v, err := p.value("", 0)
	if err == nil && v.kind != table {
		err = fmt.Errorf("line %d: %s: want an object", v.line, v)
	}
	return v, err
}

type parser struct {
	text []byte
	dec  *json.Decoder
	at   int // offset up to which lines are counted
	line int
}

// token returns the next token and the line that it ends in. The token begins in the same line, as
// no token of JSON has a newline.
func (p *parser) token() (json.Token, error) {
	token, err := p.dec.Token()
	end := int(p.dec.InputOffset())
	p.line += bytes.Count(p.text[p.at:end], []byte{'\n'})
	p.at = end
	return token, err
}

// value reads a value; where is its key.
func (p *parser) value(where string, depth int) (value, error) {
	token, err := p.token()
	if err != nil {
		return value{}, err
	}
	v := value{line: p.line}
	switch token := token.(type) {
	case nil:
		v.kind, v.scalar = null, "null"
	case bool:
		v.kind, v.scalar = truth, strconv.FormatBool(token)
	case json.Number:
		v.kind, v.scalar = number, token.String()
	case string:
		v.kind, v.scalar = text, token
	case json.Delim:
		if depth == maxDepth {
			return v, fmt.Errorf("line %d: %s: nested too deep", p.line, where)
		}
		if token == '[' {
			v.kind = list
			err = p.items(&v, where, depth+1)
		} else {
			v.kind = table
			err = p.members(&v, where, depth+1)
		}
	}
	return v, err
}

func (p *parser) items(v *value, where string, depth int) error {
	for p.dec.More() {
		item, err := p.value(fmt.Sprintf("%s[%d]", where, len(v.items)), depth)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err := p.token()
	return err
}

func (p *parser) members(v *value, where string, depth int) error {
	seen := map[string]int{}
	for p.dec.More() {
		token, err := p.token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		name := join(where, key)
		if first, twice := seen[key]; twice {
			return fmt.Errorf("line %d: %s: given twice, first in line %d", p.line, name, first)
		}
		seen[key] = p.line
		member := member{key: key}
		if member.value, err = p.value(name, depth); err != nil {
			return err
		}
		v.members = append(v.members, member)
	}
	_, err := p.token()
	return err
}

// join returns the name of a key in the section of that name: "cgroup.memory.default".
func join(section, key string) string {
	odd := func(r rune) bool { return r == '.' || r == '"' || r <= ' ' || !strconv.IsPrint(r) }
	if key == "" || strings.ContainsFunc(key, odd) {
		key = strconv.QuoteToASCII(key)
	}
	if section == "" {
		return key
	}
	return section + "." + key
}

// String returns the value as JSON in one line of printable characters.
func (v value) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v value) write(b *strings.Builder) {
	switch v.kind {
	case text:
		b.WriteString(quote(v.scalar))
	case list:
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			item.write(b)
		}
		b.WriteByte(']')
	case table:
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(m.key) + ": ")
			m.value.write(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(v.scalar)
	}
}

// quote returns a string as TOML has it, all of it printable. The form is also JSON's, but for
// runes above U+FFFF that are not printable.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff: // TOML's form; JSON would have a pair
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
