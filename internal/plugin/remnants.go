package plugin

import (
	"fmt"
	"sync"
)

// maxRemnants is how many programs of one user may be left behind at a time. Each one costs a
// thread, which waits for it, and the Go runtime has 10,000.
const maxRemnants = 16

// remnants counts the programs that were left behind, by user. Its zero value is ready for use.
type remnants struct {
	mu sync.Mutex
	of map[uint32]int
}

func (l *remnants) add(uid uint32, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[uint32]int)
	}
	l.of[uid] += n
	if l.of[uid] == 0 {
		delete(l.of, uid)
	}
}

// check fails when the user may have no further program.
func (l *remnants) check(uid uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.of[uid]; n >= maxRemnants {
		return fmt.Errorf("%d programs of uid %d were killed and do not die", n, uid)
	}
	return nil
}
