package pbs

import (
	"strconv"
	"strings"
)

// IsArray reports whether an id is a job array's: "12[]" or "12[].srv".
func IsArray(id string) bool {
	number, _, is := strings.Cut(id, "[]")
	_, err := strconv.ParseUint(number, 10, 64)
	return is && err == nil
}

// Subjob returns the array and the index of a subjob: "12[].srv" and 3 of "12[3].srv". It returns
// false for another job.
func Subjob(id string) (array string, index int, is bool) {
	number, rest, is := strings.Cut(id, "[")
	text, server, closed := strings.Cut(rest, "]")
	index, err := strconv.Atoi(text)
	if !is || !closed || err != nil || index < 0 {
		return "", 0, false
	}
	return number + "[]" + server, index, true
}

// InArray reports whether a job belongs to an array, whose id may lack the server: "12[]".
func InArray(array, id string) bool {
	of, _, is := Subjob(id)
	return is && (of == array || strings.HasPrefix(of, array+"."))
}
