package pbscgroups

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// sizeForm is a size of which the stock hook reads all (openpbs pbs_cgroups.PY, convert_size). The
// hook takes the digits that the text begins with and one letter, and does not read the rest.
var sizeForm = regexp.MustCompile(`(?i)^\+?([0-9]+)([bkmgtpezy]?)(i?b)?$`)

func size(v value) (string, error) {
	form := sizeForm.FindStringSubmatch(v.scalar)
	if form == nil || v.kind != text && v.kind != number {
		return "", errors.New(`want a size such as "256MB"`)
	}
	n, err := strconv.ParseUint(form[1], 10, 63)
	if unit := strings.ToLower(form[2]); unit != "" {
		shift := 10 * strings.Index("bkmgtpezy", unit)
		if n>>max(0, 63-shift) > 0 {
			err = strconv.ErrRange
		}
		n <<= shift
	}
	if err != nil {
		return "", errTooLarge
	}
	return sizeText(n), nil
}

func megabytes(v value) (string, error) {
	f, err := numberOf(v)
	if err != nil {
		return "", err
	}
	if !(f >= 0 && f < 1e12) {
		return "", errRange
	}
	return sizeText(uint64(f * (1 << 20))), nil
}

// sizeText writes bytes in the largest unit of which they are a whole number.
func sizeText(n uint64) string {
	unit := 0
	for n > 0 && n%1024 == 0 && unit < 5 {
		n, unit = n/1024, unit+1
	}
	return quote(strconv.FormatUint(n, 10) + []string{"b", "kb", "mb", "gb", "tb", "pb"}[unit])
}
