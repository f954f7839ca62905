package pbs

import (
	"errors"
	"strings"
)

var errQuote = errors.New("unbalanced quotes")

// split cuts text at every sep outside quotes. The pieces keep their quotes. It fails if a quote is
// not closed.
func split(text string, sep byte) ([]string, error) {
	var pieces []string
	var quote byte
	start := 0
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == sep:
			pieces = append(pieces, text[start:i])
			start = i + 1
		}
	}
	if quote != 0 {
		return nil, errQuote
	}
	return append(pieces, text[start:]), nil
}

// unquote returns the value of text, which is bare or entirely in double or single quotes. There is
// no escape character; a value with both kinds of quotes cannot be written.
func unquote(text string) (string, error) {
	if text == "" {
		return "", errors.New("no value")
	}
	bare := text
	if q := text[0]; q == '"' || q == '\'' {
		if len(text) < 2 || text[len(text)-1] != q {
			return "", errQuote
		}
		bare = text[1 : len(text)-1]
		if strings.IndexByte(bare, q) >= 0 {
			return "", errQuote
		}
	} else if strings.ContainsAny(text, `"'()`) {
		return "", errors.New("a value with quotes or parentheses has to be quoted")
	}
	for _, c := range []byte(bare) {
		if c < ' ' || c == 0x7f {
			return "", errors.New("control character in the value")
		}
	}
	return bare, nil
}

// quoted is the inverse of unquote: it adds quotes where value needs them.
func quoted(value string) string {
	switch {
	case strings.IndexByte(value, '"') >= 0:
		return "'" + value + "'"
	case value == "" || strings.ContainsAny(value, "' +:=(),"):
		return `"` + value + `"`
	}
	return value
}
