package reports

import (
	"fmt"
	"strings"
)

// namedDamage is how many files a message names.
const namedDamage = 20

// DamageError names files that were damaged after they were written. All other reports are intact.
type DamageError struct {
	Dir   string
	Files []string // their names
}

func (e *DamageError) Error() string {
	named := strings.Join(e.Files[:min(len(e.Files), namedDamage)], ", ")
	if more := len(e.Files) - namedDamage; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	noun := "files"
	if len(e.Files) == 1 {
		noun = "file"
	}
	return fmt.Sprintf("read %s: %d damaged %s: %s", e.Dir, len(e.Files), noun, named)
}
