package pbscgroups

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// entry is a key of the file.
type entry struct {
	name  string // "cgroup.memory.default"
	line  int    // counted from 1
	value any    // as encoding/json decodes it, with json.Number
}

// parse returns the keys of a text that is one JSON object, in the order of the file. It fails on
// texts on which Python's json.load fails in the stock hook. A duplicate key is an error too,
// although json.load takes the last one.
func parse(b []byte) ([]entry, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	p := parser{text: b, dec: json.NewDecoder(bytes.NewReader(b)), seen: map[string]bool{}}
	p.dec.UseNumber()
	var whole json.RawMessage
	if err := json.Unmarshal(b, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("line %d: %w", p.line(syntax.Offset), syntax)
		}
		return nil, err
	}
	if token, _ := p.dec.Token(); token != json.Delim('{') {
		return nil, fmt.Errorf("line %d: want an object", p.line(p.dec.InputOffset()))
	}
	err := p.object("")
	return p.entries, err
}

type parser struct {
	text    []byte
	dec     *json.Decoder
	entries []entry
	seen    map[string]bool
}

func (p *parser) line(offset int64) int {
	return 1 + bytes.Count(p.text[:min(int(offset), len(p.text))], []byte{'\n'})
}

// object reads the keys of a section after its {.
func (p *parser) object(section string) error {
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		e := entry{name: join(section, key), line: p.line(p.dec.InputOffset())}
		if p.seen[e.name] {
			return fmt.Errorf("line %d: %s: given twice", e.line, e.name)
		}
		p.seen[e.name] = true
		if !isSection(e.name) {
			if err := p.dec.Decode(&e.value); err != nil {
				return fmt.Errorf("line %d: %s: %w", e.line, e.name, err)
			}
			p.entries = append(p.entries, e)
			continue
		}
		if token, err := p.dec.Token(); err != nil || token != json.Delim('{') {
			return fmt.Errorf("line %d: %s: want an object", e.line, e.name)
		}
		if err := p.object(e.name); err != nil {
			return err
		}
	}
	_, err := p.dec.Token()
	return err
}

// isSection reports whether an object is a section of the stock hook.
func isSection(name string) bool {
	return name == "cgroup" ||
		slices.ContainsFunc(sections, func(s controller) bool { return name == "cgroup."+s.name })
}

// join returns the full name of a section's key: "cgroup.memory.default".
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

// quote returns a value as one printable line of JSON. Strings, numbers and booleans have the same
// form in TOML.
func quote(v any) string {
	var b, printable strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case strconv.IsPrint(r):
			printable.WriteRune(r)
		case r > 0xffff: // TOML's form; JSON would use a surrogate pair
			fmt.Fprintf(&printable, `\U%08x`, r)
		default:
			fmt.Fprintf(&printable, `\u%04x`, r)
		}
	}
	return printable.String()
}
