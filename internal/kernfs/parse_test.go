package kernfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

func TestParseKeyed(t *testing.T) {
	for _, tt := range []struct {
		name string
		text string
		want map[string]uint64
		bad  string // in the error
	}{
		{"empty", "", map[string]uint64{}, ""},
		{"memory.events", "low 0\noom_kill 3\n", map[string]uint64{"low": 0, "oom_kill": 3}, ""},
		{"no newline at the end", "a 1\nb 2", map[string]uint64{"a": 1, "b": 2}, ""},
		{"blank lines", "\na 1\n\n", map[string]uint64{"a": 1}, ""},
		{"spaces", "a   12 \n", map[string]uint64{"a": 12}, ""},
		{"greatest", "a 18446744073709551615\n", map[string]uint64{"a": 18446744073709551615}, ""},
		{"no value", "a 1\nb\n", nil, `line "b": no value`},
		{"word", "a max\n", nil, `line "a max"`},
		{"negative", "a -1\n", nil, `line "a -1"`},
		{"two values", "a 1 2\n", nil, `line "a 1 2"`},
		{"overflow", "a 18446744073709551616\n", nil, "out of range"},
		{"nested", "8:0 rbytes=1 wbytes=2\n", nil, "8:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseKeyed([]byte(tt.text))
			if (err != nil) != (tt.bad != "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
				t.Fatalf("error %v, want %q", err, tt.bad)
			}
			must.Equal(t, "", tt.want, got)
		})
	}
}

// FuzzParseKeyed: an error gives nothing, and what was parsed reads the same when it is written
// down.
func FuzzParseKeyed(f *testing.F) {
	for _, s := range []string{"", "populated 1\nfrozen 0\n", "a  1\n\nb 2", "a\n", "a -1\n", "anon 0\nfile 4096\n",
		"a 1\na 2\n", "\x00 1\n", "a\u00a01 2\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseKeyed(b)
		if err != nil {
			if m != nil {
				t.Errorf("error and %v", m)
			}
			return
		}
		var text strings.Builder
		for k, v := range m {
			fmt.Fprintf(&text, "%s %d\n", k, v)
		}
		again, err := ParseKeyed([]byte(text.String()))
		if err != nil || !cmp.Equal(m, again) {
			t.Errorf("%q: %v, then %v, %v", b, m, again, err)
		}
	})
}

func TestUintRefusesOtherText(t *testing.T) {
	dir := t.TempDir()
	f := openDir(t, dir, false)
	for _, tt := range []struct {
		name string
		text string
		want uint64
		bad  error
	}{
		{"number", "9223372036854771712\n", 9223372036854771712, nil},
		{"zero", "0\n", 0, nil},
		{"max", "max\n", 0, strconv.ErrSyntax},
		{"empty", "", 0, strconv.ErrSyntax},
		{"negative", "-1\n", 0, strconv.ErrSyntax},
		{"overflow", "18446744073709551616\n", 0, strconv.ErrRange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.NoError(t, os.WriteFile(filepath.Join(dir, "n"), []byte(tt.text), 0o644))
			got, err := f.Uint("n")
			var p *ParseError
			if got != tt.want || !errors.Is(err, tt.bad) || tt.bad != nil && !errors.As(err, &p) {
				t.Errorf("got %d, %v; want %d, %v", got, err, tt.want, tt.bad)
			}
		})
	}
}

func TestParseIDSet(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []int
		bad  bool
	}{
		{"", nil, false},
		{"\n", nil, false},
		{"0\n", []int{0}, false},
		{"0-3,8\n", []int{0, 1, 2, 3, 8}, false},
		{"8,0-3", []int{0, 1, 2, 3, 8}, false},
		{"1-2,2-3,3", []int{1, 2, 3}, false},
		{"63-65", []int{63, 64, 65}, false},
		{"65535", []int{65535}, false},
		{"65536", nil, true},
		{"0-4294967296", nil, true},
		{"3-1", nil, true},
		{"-1", nil, true},
		{"1-", nil, true},
		{"1--2", nil, true},
		{",", nil, true},
		{"1,,2", nil, true},
		{"a", nil, true},
		{"0x1", nil, true},
		{"1_0", nil, true},
		{"+1", nil, true},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseIDSet(tt.text)
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %t", err, tt.bad)
			}
			if !got.Equal(IDs(tt.want...)) || !slices.Equal(got.List(), tt.want) || got.Len() != len(tt.want) ||
				got.IsEmpty() != (len(tt.want) == 0) {
				t.Errorf("got %v, want %v", got.List(), tt.want)
			}
		})
	}
}

// FuzzParseIDSet: an error gives the empty set, and the text of a set is stable.
func FuzzParseIDSet(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,8", "8,0-3", "1-2,2-3", "65535", "0-65535", "3-1", "1,,2", " 5\n",
		"00-01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseIDSet(text)
		if err != nil {
			if !s.IsEmpty() {
				t.Errorf("error and %v", s)
			}
			return
		}
		again, err := ParseIDSet(s.String())
		if err != nil || !again.Equal(s) || again.String() != s.String() {
			t.Errorf("%q: %v, then %v, %v", text, s, again, err)
		}
		if ids := s.List(); !IDs(ids...).Equal(s) || len(ids) != s.Len() || !slices.IsSorted(ids) {
			t.Errorf("%q: list %v", text, ids)
		}
	})
}

func TestIDSetAlgebra(t *testing.T) {
	parse := func(text string) IDSet {
		t.Helper()
		s, err := ParseIDSet(text)
		must.NoError(t, err)
		return s
	}
	for _, tt := range []struct{ s, t, union, minus, both string }{
		{"", "", "", "", ""},
		{"0-3", "", "0-3", "0-3", ""},
		{"", "0-3", "0-3", "", ""},
		{"0-3", "2-5", "0-5", "0-1", "2-3"},
		{"0,200", "200", "0,200", "0", "200"},
		{"200", "0", "0,200", "200", ""},
		{"64-127", "64-127", "64-127", "", "64-127"},
	} {
		t.Run(tt.s+" and "+tt.t, func(t *testing.T) {
			a, b := parse(tt.s), parse(tt.t)
			for op, c := range map[string]struct {
				got  IDSet
				want string
			}{"union": {a.Union(b), tt.union}, "minus": {a.Minus(b), tt.minus},
				"intersect": {a.Intersect(b), tt.both}} {
				if c.got.String() != c.want || !c.got.Equal(parse(c.want)) {
					t.Errorf("%s: got %q, want %q", op, c.got, c.want)
				}
			}
			if a.String() != tt.s || b.String() != tt.t {
				t.Errorf("operands changed: %v %v", a, b)
			}
		})
	}
	s := IDs(3, 70)
	if !s.Has(3) || !s.Has(70) || s.Has(4) || s.Has(1000) || s.Has(-1) {
		t.Error("Has")
	}
	if b, err := s.MarshalText(); err != nil || string(b) != "3,70" {
		t.Errorf("MarshalText: %q, %v", b, err)
	}
	if err := s.UnmarshalText([]byte("x")); err == nil || s.String() != "3,70" {
		t.Errorf("UnmarshalText of junk: %v, %v", s, err)
	}
	if err := s.UnmarshalText([]byte("0-1")); err != nil || s.String() != "0-1" {
		t.Errorf("UnmarshalText: %v, %v", s, err)
	}
}
