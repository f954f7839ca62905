package hostapi

import (
	"strings"
	"unicode"
)

// Printable returns text with a question mark for each character that does not print and each byte
// that is no character. Users choose the names of their processes and jobs, which become part of
// notes and tables.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}

// OneLine returns text with "; " in place of its line ends.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// Clip returns the first n bytes of text, and "..." for the rest if there is more. No character is
// cut in half.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
