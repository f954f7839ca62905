package report

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes s safe for a terminal. Users choose job names and messages. An invisible rune
// (control characters, terminal escapes, direction marks, broken UTF-8) becomes a Go escape such as
// \x1b.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}
