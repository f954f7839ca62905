package openpbs

import (
	"slices"
	"testing"
)

func TestNodesThatHaveNotConfirmedTheHookArePending(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"n1:15002 hookhost 3 12\nn2:15002 hookhost 1 12\n":                              {"n1", "n2"},
		"n1:15002 hookhost 3 12\nn2:15002 hookhost 1 12\nn1:15002 hookhost 0 12\n":      {"n2"},
		"n1:15002 hookhost 0 12\nn1:15002 hookhost 2 13\n":                              {"n1"},
		"n1:15002 hookhost 34 283\nn1:15002 hookhost 0 281\nn1:15002 hookhost 0 281\n":  {"n1"},
		"n1:15002 other 3 12\nn1:15002 resourcedef 8 12\n":                              nil,
		"n1:15002 hookhost 3\nn2:15002\n\nhookhost 3 12\nn3:15002 hookhost 3 12 more\n": nil,
	} {
		if got := Pending([]byte(text), "hookhost"); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
