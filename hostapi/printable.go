package hostapi

import (
	"strings"
	"unicode"
)

// Printable returns text with a question mark in place of each unprintable character and each
// invalid byte. Users choose the names of their processes and jobs, which become part of notes and
// tables.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}

// OneLine returns text with "; " in place of line breaks.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// Clip returns the first n bytes of text, followed by "..." if there is more. It does not cut a
// character in half.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
