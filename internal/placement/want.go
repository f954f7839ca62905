package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/internal/topology"
)

// Want is a request for a number of devices of one kind.
type Want struct {
	Resource string   // "ngpus", or the name of a configured resource
	Vendor   string   // as in topology.Device; "" means any
	Models   []string // one of these; none means any. See Matches.
	// MinMemory and MaxMemory are bytes; 0 means no bound. They are compared with the size that the
	// maker gives the device: see Matches.
	MinMemory, MaxMemory int64
	Count                int
}

// Matches reports whether d is of the kind that w requests.
//
// A model is one or more whole words of the device's model, in upper or lower case. Words are
// separated by spaces, dashes, dots and the like. "A100" and "a100-sxm4" match "NVIDIA
// A100-SXM4-40GB", but "A10" and "A1000" do not.
//
// Memory is the size with which the device is sold, which is more than the driver reports. An 80 GB
// card has 79.6 GiB, and error correction takes a sixteenth of other memory. The size in the
// model's name ("40GB", "1g.5gb") counts if it is within an eighth of what the driver reports.
// Otherwise a device may have up to 8 percent less than requested. A device of unknown memory does
// not satisfy any bound.
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

// nominal returns the smallest and the largest size with which d may be sold. They are equal if the
// model's name contains the size, and 0 if the memory is unknown.
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

// contains reports whether part occurs in words without a gap. An empty part does not.
func contains(words, part []string) bool {
	for i := range len(words) - len(part) + 1 {
		if len(part) > 0 && slices.Equal(words[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// kind returns the part of w other than its resource and count, as jobs write it:
// "nvidia:A100,H100:40gb..80gb". It returns "" if any device of the resource will do.
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
