package nodestate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Place is a state directory as somebody who works with another one can find it. The numbers are those of stat(2): they stay when the
// directory is renamed, and a directory that is made at its path later has others, as a rule.
type Place struct {
	Dir string `json:"dir"` // absolute
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Place returns where the directory is; the zero value for one that is not there, and for the empty one.
func (d Dir) Place() (Place, error) {
	if d == "" {
		return Place{}, nil
	}
	info, err := os.Stat(string(d))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Place{}, nil
	}
	if err != nil {
		return Place{}, fmt.Errorf("state directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return Place{}, fmt.Errorf("state directory %s: not a directory", d)
	}
	return Place{Dir: string(d), Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// Apart tells whether p is another state directory than d and still there: what is recorded in it is not d's to end, even while
// nobody works with it. False where either is not known, and where p was renamed (to d, for all that can be told), deleted, or deleted and
// made anew. One that cannot be looked at counts as there. It touches no file where the paths are the same.
func (p Place) Apart(d Dir) bool {
	if p.Dir == "" || d == "" || p.Dir == string(d) {
		return false
	}
	there, err := Dir(p.Dir).Place()
	if err != nil {
		return true
	}
	if there != p {
		return false
	}
	own, err := d.Place()
	return err != nil || own.Dev != p.Dev || own.Ino != p.Ino // the same by a link, or mounted twice
}
