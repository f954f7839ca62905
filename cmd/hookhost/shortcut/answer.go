package shortcut

import (
	"strconv"
	"unicode/utf8"
)

// outcome is what hooks say of the environment of the command.
type outcome struct {
	set   []variable
	unset []string
}

type variable struct{ name, value string }

// split takes an HTTP answer apart; whole is false when there is more of it to come, or its length is not said.
func split(b []byte) (status int, body []byte, whole bool) {
	const protocol = "HTTP/1.1 "
	if len(b) < len(protocol)+3 || string(b[:len(protocol)]) != protocol {
		return 0, nil, false
	}
	status, err := strconv.Atoi(string(b[len(protocol) : len(protocol)+3]))
	if err != nil {
		return 0, nil, false
	}
	length := -1
	for start, i := 0, 0; i+1 < len(b); i++ {
		if b[i] != '\r' || b[i+1] != '\n' {
			continue
		}
		line := string(b[start:i])
		if start = i + 2; line == "" {
			body = b[start:]
			return status, body, length >= 0 && len(body) >= length
		}
		if header := "Content-Length: "; len(line) > len(header) && line[:len(header)] == header {
			if length, err = strconv.Atoi(line[len(header):]); err != nil {
				return 0, nil, false
			}
		}
	}
	return 0, nil, false
}

// outcomeOf reads an answer. ok is false when it is anything but the plain acceptance of an attach, as the daemon writes it.
func outcomeOf(answer []byte) (o outcome, ok bool) {
	status, body, whole := split(answer)
	if !whole || status != 200 || !utf8.Valid(body) {
		return outcome{}, false
	}
	s := scanner{rest: string(body)}
	s.object(func(key string) {
		if key != "outcome" {
			s.other(key)
			return
		}
		s.object(func(key string) {
			switch key {
			case "set_env":
				s.object(func(name string) { o.set = append(o.set, variable{name, s.text()}) })
			case "unset_env":
				o.unset = nil
				s.array(func() { o.unset = append(o.unset, s.text()) })
			case "reject":
				s.need("false")
			default:
				s.other(key)
			}
		})
	})
	s.space()
	return o, !s.bad && s.rest == ""
}

// scanner reads JSON as far as encoding/json writes it, and is bad from the first thing on that it does not know.
type scanner struct {
	rest string
	bad  bool
}

func (s *scanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\n' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// take passes over word if it comes next.
func (s *scanner) take(word string) bool {
	s.space()
	if s.bad || len(s.rest) < len(word) || s.rest[:len(word)] != word {
		return false
	}
	s.rest = s.rest[len(word):]
	return true
}

func (s *scanner) need(word string) {
	if !s.take(word) {
		s.bad = true
	}
}

// object calls value before the value of each key, which it has to read.
func (s *scanner) object(value func(key string)) {
	s.need("{")
	if s.take("}") {
		return
	}
	for !s.bad {
		key := s.text()
		s.need(":")
		value(key)
		if !s.take(",") {
			s.need("}")
			return
		}
	}
}

func (s *scanner) array(value func()) {
	s.need("[")
	if s.take("]") {
		return
	}
	for !s.bad {
		value()
		if !s.take(",") {
			s.need("]")
			return
		}
	}
}

// text reads a string.
func (s *scanner) text() string {
	s.need(`"`)
	var b []byte
	for i := 0; !s.bad && i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return string(b)
		case c < ' ':
			s.bad = true
		case c != '\\':
			b = append(b, c)
		default:
			r, n := escape(s.rest[i+1:])
			if n == 0 {
				s.bad = true
				break
			}
			b = utf8.AppendRune(b, r)
			i += n
		}
	}
	s.bad = true
	return ""
}

// escape reads what follows a backslash and returns its length, 0 for what is none, or half of a pair.
func escape(text string) (r rune, n int) {
	const from, to = "\"\\/bfnrt", "\"\\/\b\f\n\r\t"
	for i := range from {
		if text != "" && text[0] == from[i] {
			return rune(to[i]), 1
		}
	}
	if len(text) < 5 || text[0] != 'u' {
		return 0, 0
	}
	code, err := strconv.ParseUint(text[1:5], 16, 16)
	if err != nil || !utf8.ValidRune(rune(code)) {
		return 0, 0
	}
	return rune(code), 5
}

// maxDepth is more than any answer has.
const maxDepth = 50

// other passes over the value of a key. One that is written otherwise than the daemon's are may be meant for one of them.
func (s *scanner) other(key string) {
	for _, c := range []byte(key) {
		if c != '_' && (c < 'a' || c > 'z') {
			s.bad = true
		}
	}
	s.skip(0)
}

// skip passes over a value.
func (s *scanner) skip(depth int) {
	s.space()
	switch {
	case s.rest == "" || depth > maxDepth:
		s.bad = true
	case s.rest[0] == '{':
		s.object(func(string) { s.skip(depth + 1) })
	case s.rest[0] == '[':
		s.array(func() { s.skip(depth + 1) })
	case s.rest[0] == '"':
		s.text()
	case s.take("true"), s.take("false"), s.take("null"):
	default:
		s.number()
	}
}

func (s *scanner) number() {
	s.next('-')
	if !s.next('0') {
		s.digits()
	}
	if s.next('.') {
		s.digits()
	}
	if s.next('e') || s.next('E') {
		_ = s.next('+') || s.next('-')
		s.digits()
	}
}

// next passes over c if it comes at once.
func (s *scanner) next(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) digits() {
	n := 0
	for n < len(s.rest) && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	s.bad, s.rest = s.bad || n == 0, s.rest[n:]
}
