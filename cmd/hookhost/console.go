package main

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/report"
)

// stdout and stderr are what this program says itself, the log included. Names of processes and
// jobs, and what programs and other hosts say, are in it, and no terminal is to obey them. The
// output of a job, or of a command of its user's, does not pass here.
var stdout, stderr io.Writer = console{os.Stdout}, console{os.Stderr}

// console passes on text with each character that does not print, but for line feed and tab, as
// JSON escapes it. So JSON stays JSON, and the same.
type console struct{ to io.Writer }

// Write takes whole characters: one whose bytes come in two parts is none.
func (c console) Write(b []byte) (int, error) {
	clean := make([]byte, 0, len(b))
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			clean = fmt.Appendf(clean, `\x%02x`, rest[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			clean = append(clean, rest[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			clean = fmt.Appendf(clean, `\u%04x\u%04x`, high, low)
		default:
			clean = fmt.Appendf(clean, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	if _, err := c.to.Write(clean); err != nil {
		return 0, err
	}
	return len(b), nil
}

// formatNamed returns the format of a report that is written to a file. The text is as wide as the
// file's terminal.
func formatNamed(name string, to *os.File) (report.Format, error) {
	if name != "text" {
		return report.FormatNamed(name)
	}
	columns := 0
	if size, err := unix.IoctlGetWinsize(int(to.Fd()), unix.TIOCGWINSZ); err == nil {
		columns = int(size.Col)
	}
	return report.Text(columns), nil
}
