package kernfs

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxID bounds the numbers in a list. The kernel's NR_CPUS is at most 8192 on x86.
const maxID = 1 << 16

// IDSet is a set of small numbers: cpus or NUMA nodes. The zero value is empty. An IDSet is a
// value: methods return new sets and never change their receiver.
type IDSet struct {
	words []uint64 // no zero words at the end, so equal sets have equal words
}

// IDs returns the set of ids. It panics if one is negative.
func IDs(ids ...int) IDSet {
	var s IDSet
	for _, id := range ids {
		s.add(id)
	}
	return s
}

// ParseIDSet parses the kernel's list format, such as "0-3,8" or "" (cpuset.cpus, node/online).
func ParseIDSet(text string) (IDSet, error) {
	var s IDSet
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(lo, 10, 31)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(hi, 10, 31)
		}
		if err != nil || last < first || last >= maxID {
			return IDSet{}, fmt.Errorf("id list %q: bad part %q", text, part)
		}
		for id := first; id <= last; id++ {
			s.add(int(id))
		}
	}
	return s, nil
}

// IDSet reads a file in the list format. The kernel does not show lists of /sys/devices in one
// piece (bin_attribute).
func (f *FS) IDSet(name string) (IDSet, error) {
	b, err := f.ReadFile(name)
	if err != nil {
		return IDSet{}, err
	}
	s, err := ParseIDSet(string(b))
	if err != nil {
		return IDSet{}, &ParseError{File: f.Path(name), Text: strings.TrimSpace(string(b)), Err: err}
	}
	return s, nil
}

func (s *IDSet) add(id int) {
	for len(s.words) <= id/64 {
		s.words = append(s.words, 0)
	}
	s.words[id/64] |= 1 << (id % 64)
}

// Has reports whether id is in s.
func (s IDSet) Has(id int) bool {
	return id >= 0 && id/64 < len(s.words) && s.words[id/64]&(1<<(id%64)) != 0
}

// Len returns the number of ids in s.
func (s IDSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether s is empty.
func (s IDSet) IsEmpty() bool { return len(s.words) == 0 }

// Equal reports whether s and t contain the same ids.
func (s IDSet) Equal(t IDSet) bool { return slices.Equal(s.words, t.words) }

// List returns the ids in ascending order.
func (s IDSet) List() []int {
	ids := make([]int, 0, s.Len())
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			ids = append(ids, i*64+bits.TrailingZeros64(w))
		}
	}
	return ids
}

// Union returns the ids in s or t.
func (s IDSet) Union(t IDSet) IDSet { return s.merge(t, func(a, b uint64) uint64 { return a | b }) }

// Minus returns the ids in s that are not in t.
func (s IDSet) Minus(t IDSet) IDSet { return s.merge(t, func(a, b uint64) uint64 { return a &^ b }) }

// Intersect returns the ids in both s and t.
func (s IDSet) Intersect(t IDSet) IDSet { return s.merge(t, func(a, b uint64) uint64 { return a & b }) }

func (s IDSet) merge(t IDSet, op func(a, b uint64) uint64) IDSet {
	words := make([]uint64, max(len(s.words), len(t.words)))
	last := 0
	for i := range words {
		var a, b uint64
		if i < len(s.words) {
			a = s.words[i]
		}
		if i < len(t.words) {
			b = t.words[i]
		}
		if words[i] = op(a, b); words[i] != 0 {
			last = i + 1
		}
	}
	return IDSet{words: words[:last]}
}

// String returns s in the kernel's list format, "" for the empty set.
func (s IDSet) String() string {
	var b strings.Builder
	ids := s.List()
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(ids[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(ids[j]))
		}
		i = j + 1
	}
	return b.String()
}

// MarshalText returns String.
func (s IDSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses as ParseIDSet does.
func (s *IDSet) UnmarshalText(b []byte) error {
	t, err := ParseIDSet(string(b))
	if err != nil {
		return err
	}
	*s = t
	return nil
}
