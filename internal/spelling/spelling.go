// Package spelling finds the name that a person meant by a misspelt one.
package spelling

import (
	"fmt"
	"strings"
)

// Unknown returns the error for a word that is not one of the known names. The error names the
// nearest of them. If none is near, it lists all.
func Unknown(what, word string, known []string) error {
	if name := Nearest(word, known); name != "" {
		return fmt.Errorf("%s %q: unknown: did you mean %s?", what, word, name)
	}
	return fmt.Errorf("%s %q: not one of %s", what, word, strings.Join(known, ", "))
}

// Nearest returns the known name that differs least from the word, or "" if none is near. Case does
// not matter. A name is near if a third of the word's letters, or fewer, would have to change, and
// at most two. If there is no such name, the first one that begins with the word is near.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	nearest, least := "", min((len(word)+1)/3, 2)+1
	for _, name := range known {
		if d := distance(word, strings.ToLower(name)); d < least {
			nearest, least = name, d
		}
	}
	if nearest != "" || len(word) < 2 {
		return nearest
	}
	for _, name := range known {
		if strings.HasPrefix(strings.ToLower(name), word) {
			return name
		}
	}
	return ""
}

// distance returns how many bytes have to change to turn a into b. A change inserts, deletes or
// replaces a byte, or exchanges it with the next one (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
