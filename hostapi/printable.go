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
