// Package pbs reads and writes PBS's texts about resources: sizes, durations, qsub's -l arguments,
// select specifications and exec_vnode. It reads those about jobs: of qstat, and of accounting.
//
// Where OpenPBS's own readers (src/lib/Libattr, src/lib/Libifl/grunt_parse.c) are strict, this
// package follows them. Where they guess, it is stricter: no trailing junk, no empty field, no
// silent overflow. Its readers accept text from outside, so their input is limited to maxText bytes
// and maxChunks chunks. Except for HostName, ReadConf and MoM's home (momhome.go), the package is
// pure: no file, no clock, no state.
package pbs

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	maxText   = 16 << 20 // bytes; the exec_vnode of maxChunks chunks with long host names stays below it
	maxChunks = 100_000
)

// Shown returns text in a form that an error can quote: one printable line of limited length.
func Shown(text string) string {
	const most = 64
	cut := ""
	if len(text) > most {
		text, cut = text[:most], "..."
	}
	for _, r := range text {
		if r == '\uFFFD' || !strconv.IsPrint(r) {
			return strconv.Quote(text) + cut
		}
	}
	return text + cut
}

// checkLength limits a reader's input. what names it in the error.
func checkLength(what, text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%s: %d bytes long, at most %d are read", what, len(text), maxText)
	}
	return nil
}

// isName reports whether text can be the name of a resource.
func isName(text string) bool {
	for i, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return text != ""
}

// isDigits reports whether text is one or more decimal digits.
func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
