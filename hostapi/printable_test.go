package hostapi

import "testing"

func TestPrintableHasOneLineThatSteersNoTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a b": "a b", "Jürgen": "Jürgen", "a\x1b[2J\n\tb\x7f": "a?[2J??b?", "\xff\u202ea": "??a",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
