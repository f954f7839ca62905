package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/top"
)

// stdout and stderr are for this program's own output, including the log. It may contain names of
// processes and jobs and output of programs, and a terminal must not obey these. Output of a job,
// or of a command of its user, does not go through them.
var stdout, stderr io.Writer = console{os.Stdout}, console{os.Stderr}

// console escapes unprintable characters as in JSON, except line feed and tab. So JSON remains
// valid and keeps its meaning. It is a report.Painter: the colours go around the escaped text.
type console struct{ to io.Writer }

// Write expects complete characters: one that is split between two calls counts as invalid.
func (c console) Write(b []byte) (int, error) {
	if _, err := c.to.Write(escaped(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// colours are the parameters of SGR (ECMA-48) for the styles, of the 16 colours of every terminal.
var colours = map[report.Style]string{report.Bad: "1;31", report.Warning: "33", report.Good: "32", report.Faint: "2"}

// Paint writes text, in a colour if the file is a terminal that has colours.
func (c console) Paint(style report.Style, text string) error {
	b := escaped([]byte(text))
	if colour := colours[style]; colour != "" && c.hasColours() {
		b = fmt.Appendf(nil, "\x1b[%sm%s\x1b[m", colour, b)
	}
	_, err := c.to.Write(b)
	return err
}

// hasColours reports whether a console is a terminal with colours whose user wants them
// (no-color.org).
func (c console) hasColours() bool {
	if kind := os.Getenv("TERM"); os.Getenv("NO_COLOR") != "" || kind == "" || kind == "dumb" {
		return false
	}
	f, ok := c.to.(*os.File)
	return ok && top.IsTerminal(f)
}

// paint writes text in a style, or plainly if w has none.
func paint(w io.Writer, style report.Style, text string) error {
	if p, ok := w.(report.Painter); ok {
		return p.Paint(style, text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// escaped returns text with its unprintable characters escaped.
func escaped(b []byte) []byte {
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
	return clean
}

// output is standard output, or a file that is created when there is something to write. If an
// error comes before that, an existing file stays unchanged.
type output struct {
	path   string // "" is standard output
	stdout io.Writer
	file   *os.File
}

func (o *output) Write(b []byte) (int, error) {
	if o.path == "" {
		return o.stdout.Write(b)
	}
	if o.file == nil {
		f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return 0, err
		}
		o.file = f
	}
	return console{o.file}.Write(b)
}

// Paint writes text in a style, if the output is a terminal.
func (o *output) Paint(style report.Style, text string) error {
	if o.path == "" {
		return paint(o.stdout, style, text)
	}
	_, err := o.Write([]byte(text))
	return err
}

// close closes the file. If nothing was written, it creates an empty file, unless failed is set.
func (o *output) close(failed error) error {
	if o.path == "" || o.file == nil && failed != nil {
		return nil
	}
	if o.file == nil {
		if _, err := o.Write(nil); err != nil {
			return err
		}
	}
	return o.file.Close()
}

// formatNamed returns the format of a report on stdout or stderr. Text has the width of the
// terminal and the characters of the locale.
func formatNamed(name string, to io.Writer) (report.Format, error) {
	if name != "text" {
		return report.FormatNamed(name)
	}
	return report.Text(columnsOf(to), showsUTF8()), nil
}

// showsUTF8 reports whether the locale's characters are UTF-8, as setlocale(3) finds it.
func showsUTF8() bool {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	charset := strings.ToLower(locale)
	return strings.Contains(charset, "utf-8") || strings.Contains(charset, "utf8")
}

// columnsOf returns the width of a terminal, or 0 if the writer is not a terminal.
func columnsOf(w io.Writer) int {
	c, _ := w.(console)
	f, ok := c.to.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// wrap breaks text between words into rows of at most width bytes. A longer word gets its own row.
func wrap(text string, width int) []string {
	var rows []string
	row := ""
	for _, word := range strings.Fields(text) {
		if row != "" && len(row)+1+len(word) > width {
			rows, row = append(rows, row), ""
		}
		if row != "" {
			row += " "
		}
		row += word
	}
	return append(rows, row)
}

// indented returns text as an indented paragraph of a help.
func indented(text string) string { return "  " + strings.Join(wrap(text, helpColumns-2), "\n  ") }
