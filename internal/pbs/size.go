package pbs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is an amount of memory in bytes. PBS's units are powers of 1024: 1kb is 1024 bytes.
type Size int64

const wordBytes = 8 // SIZEOF_WORD of PBS: "1kw" is 8kb

var (
	errNotSize  = errors.New("not a size")
	errTooLarge = errors.New("too large")
)

// units are in the order of their shifts: units[i] means 1 << (10*i) bytes.
const units = "bkmgtp"

// ParseSize parses a size in qsub's format: a whole number of bytes, or one with a unit. The units
// are b, kb, mb, gb, tb and pb, and w, kw, mw, gw, tw and pw for words of 8 bytes. Case does not
// matter. The b may be left out after k to p. ParseSize fails on everything else, including
// negative sizes and sizes of 8 EiB and more.
func ParseSize(text string) (Size, error) {
	s, _, err := parseSize(text)
	if err != nil {
		return 0, fmt.Errorf("size %s: %w", Shown(text), err)
	}
	return s, nil
}

// parseSize also returns the shift of the unit in text. It is 0 for bytes and for words with any
// prefix, which have no corresponding unit in bytes.
func parseSize(text string) (s Size, shift uint, err error) {
	end := 0
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	if end == 0 {
		return 0, 0, errNotSize
	}
	word := false
	switch suffix := strings.ToLower(text[end:]); {
	case suffix == "", suffix == "b":
	case suffix == "w":
		word = true
	default:
		i := strings.IndexByte(units, suffix[0])
		if i < 1 || len(suffix) > 2 || len(suffix) == 2 && suffix[1] != 'b' && suffix[1] != 'w' {
			return 0, 0, errNotSize
		}
		shift, word = uint(10*i), strings.HasSuffix(suffix, "w")
	}
	n, err := strconv.ParseUint(text[:end], 10, 63)
	factor := uint64(1) << shift
	if word {
		factor, shift = factor*wordBytes, 0
	}
	if err != nil || n > math.MaxInt64/factor {
		return 0, 0, errTooLarge
	}
	return Size(n * factor), shift, nil
}

// String returns s exactly, in kb if it is a whole number of kb, as PBS writes sizes: "65536kb",
// else "100b".
func (s Size) String() string {
	if s%1024 == 0 {
		return s.KB()
	}
	return strconv.FormatInt(int64(s), 10) + "b"
}

// KB returns s in kb, rounded up: "65536kb".
func (s Size) KB() string {
	kb := int64(s) / 1024
	if s > 0 && s%1024 != 0 {
		kb++
	}
	return strconv.FormatInt(kb, 10) + "kb"
}

// Text returns s for a person, rounded to three digits and without zeros at the end of a fraction:
// "16 GiB", "1.25 GiB", "98.4 MiB". It has four digits from 1000 to 1023. For a negative size the
// result is in bytes.
func (s Size) Text() string {
	const names = "KMGTPE"
	v, unit := float64(s), -1
	for v >= 1023.5 && unit < len(names)-1 {
		v, unit = v/1024, unit+1
	}
	if unit < 0 {
		return strconv.FormatInt(int64(s), 10) + " B"
	}
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + names[unit:unit+1] + "iB"
}

// in returns s in the unit of shift, rounded up.
func (s Size) in(shift uint) string {
	n := int64(s) >> shift
	if int64(s)&(1<<shift-1) != 0 {
		n++
	}
	text := strconv.FormatInt(n, 10)
	if shift > 0 {
		text += units[shift/10 : shift/10+1]
	}
	return text + "b"
}

// MarshalText returns String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) error {
	parsed, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
