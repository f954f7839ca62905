package kernfs

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
)

// Meminfo returns the values of keys in bytes. Lines are "MemTotal: 24684084 kB" (proc_meminfo(5))
// or "Node 0 MemTotal: 4024524 kB" (a NUMA node's meminfo). A key that the kernel does not have is
// missing in the result. Other keys are not read. Meminfo fails on a value of another form.
//
// The library procfs rejects the whole file if one line has another unit (meminfo.go:250). It has
// no KReclaimable, and it does not read a NUMA node's file.
func (f *FS) Meminfo(file string, keys ...string) (map[string]int64, error) {
	text, err := f.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values, line := parseMeminfo(text, keys)
	if line != nil {
		return nil, &ParseError{File: f.Path(file), Text: string(line), Err: errors.New("not a number of kB")}
	}
	return values, nil
}

// parseMeminfo also returns the line that it does not understand, or nil.
func parseMeminfo(text []byte, keys []string) (values map[string]int64, bad []byte) {
	values = make(map[string]int64, len(keys))
	for line := range bytes.Lines(text) {
		key, value, found := bytes.Cut(line, []byte(":"))
		key = key[bytes.LastIndexByte(key, ' ')+1:] // after "Node 0 "
		if !found || !slices.Contains(keys, string(key)) {
			continue
		}
		number, isKB := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
		kb, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || kb < 0 || kb > math.MaxInt64/1024 || !isKB {
			return nil, bytes.TrimSpace(line)
		}
		values[string(key)] = kb * 1024
	}
	return values, nil
}
