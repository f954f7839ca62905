package report

import (
	"bytes"
	"io"
)

// Style is how a text stands out on a terminal with colours.
type Style int

// The styles.
const (
	Plain   Style = iota
	Bad           // something failed or is impossible
	Warning       // something needs attention
	Good          // something works
	Faint         // something matters little
)

// Painter is what a writer can be in addition: a terminal with colours.
type Painter interface {
	// Paint writes a text in a style.
	Paint(style Style, text string) error
}

// painting is a text, some parts of which have a style.
type painting struct {
	bytes.Buffer
	marks []paintedPart
}

// paintedPart is a part of a painting, from its first byte to the one after its last.
type paintedPart struct {
	from, to int
	style    Style
}

// paint adds a text in a style.
func (p *painting) paint(style Style, text string) {
	from := p.Len()
	p.WriteString(text)
	if style != Plain {
		p.marks = append(p.marks, paintedPart{from, p.Len(), style})
	}
}

// writeTo writes the text, without styles if w is no Painter.
func (p *painting) writeTo(w io.Writer) error {
	text := p.Bytes()
	painter, ok := w.(Painter)
	if !ok || len(p.marks) == 0 {
		_, err := w.Write(text)
		return err
	}
	at := 0
	for _, m := range p.marks {
		if _, err := w.Write(text[at:m.from]); err != nil {
			return err
		}
		if err := painter.Paint(m.style, string(text[m.from:m.to])); err != nil {
			return err
		}
		at = m.to
	}
	_, err := w.Write(text[at:])
	return err
}
