package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/internal/topology"
)

// Want is a number of devices of one kind.
type Want struct {
	Resource string   // "ngpus", or the name of a configured one
	Vendor   string   // as topology.Device has it; "" is any
	Models   []string // one of these; none is any. See Matches.
	// MinMemory and MaxMemory are bytes; 0 is any. They are compared with what the maker calls the
	// device, see Matches.
	MinMemory, MaxMemory int64
	Count                int
}

// Matches reports whether d is of the kind that w wants.
//
// A model is one or more whole words of the device's, in any case: words are what is between
// spaces, dashes, dots and the like. "A100" and "a100-sxm4" match "NVIDIA A100-SXM4-40GB", "A10"
// and "A1000" do not.
//
// Memory means the size that the device is sold with, which is more than the driver shows. An 80 GB
// card has 79.6 GiB, and error correction takes a sixteenth of other memory. The size in the
// model's name ("40GB", "1g.5gb") counts when it is within an eighth of what the driver shows.
// Otherwise a device may have up to 8 percent less than asked for. A device whose memory nobody
// knows matches no bound.
func (w Want) Matches(d topology.Device) bool {
	if d.Resource != w.Resource || w.Vendor != "" && d.Vendor != w.Vendor {
		return false
	}
	if len(w.Models) > 0 {
		words := wordsOf(d.Model)
		if !slices.ContainsFunc(w.Models, func(model string) bool { return contains(words, wordsOf(model)) }) {
			return false
		}
	}
	if w.MinMemory == 0 && w.MaxMemory == 0 {
		return true
	}
	least, most := nominal(d)
	return most > 0 && most >= w.MinMemory && (w.MaxMemory == 0 || least <= w.MaxMemory)
}

const gib = 1 << 30

// nominal returns between which sizes what d is sold with is: the same twice when its model tells,
// and 0 when nobody knows.
func nominal(d topology.Device) (least, most int64) {
	for _, word := range slices.Backward(wordsOf(d.Model)) {
		number, ok := strings.CutSuffix(word, "gb")
		n, err := strconv.ParseUint(number, 10, 20)
		if !ok || err != nil || n == 0 {
			continue
		}
		if size := int64(n) * gib; d.Memory <= 0 || d.Memory-size <= size/8 && size-d.Memory <= size/8 {
			return size, size
		}
	}
	if d.Memory <= 0 {
		return 0, 0
	}
	return d.Memory, d.Memory + d.Memory/23*2 // /0.92
}

// wordsOf splits a model's name: "NVIDIA A100-SXM4-40GB" is nvidia a100 sxm4 40gb.
func wordsOf(model string) []string {
	return strings.FieldsFunc(strings.ToLower(model),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// contains reports whether all of part stands in words in one piece; an empty part does not.
func contains(words, part []string) bool {
	for i := range len(words) - len(part) + 1 {
		if len(part) > 0 && slices.Equal(words[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// kind returns what of w is not its resource and count, in the form that jobs ask in:
// "nvidia:A100,H100:40gb..80gb". The kind is "" when every device of the resource will do.
func (w Want) kind() string {
	fields := []string{w.Vendor, strings.Join(w.Models, ","), ""}
	switch low, high := size(w.MinMemory), size(w.MaxMemory); {
	case low != "" && low == high:
		fields[2] = low
	case low != "" || high != "":
		fields[2] = low + ".." + high
	}
	for len(fields) > 0 && fields[len(fields)-1] == "" {
		fields = fields[:len(fields)-1]
	}
	for i := range fields {
		if fields[i] == "" {
			fields[i] = "*"
		}
	}
	return strings.Join(fields, ":")
}

// size returns bytes as PBS writes them, in the largest unit that is exact; "" for 0.
func size(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	for i, unit := range []string{"gb", "mb", "kb"} {
		if by := int64(gib) >> (10 * i); bytes%by == 0 {
			return fmt.Sprint(bytes/by) + unit
		}
	}
	return fmt.Sprint(bytes) + "b"
}
