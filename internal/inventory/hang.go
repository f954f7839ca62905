package inventory

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// hangs are attempts that this package has given up and that have not ended. Each occupies a thread
// or a process, so nothing that hangs is tried again.
type hangs struct {
	mu  sync.Mutex
	all map[string][]*hang // by the name of the source
}

type hang struct {
	text  string
	since time.Time
}

// hung is global, as drivers are.
var hung = hangs{all: map[string][]*hang{}}

// add records that a source hangs. The caller calls over if it ends after all.
func (h *hangs) add(what, text string, since time.Time) (over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := &hang{text, since}
	h.all[what] = append(h.all[what], one)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all[what] = slices.DeleteFunc(h.all[what], func(o *hang) bool { return o == one })
	}
}

// err returns an error if the source still hangs, so that it is not asked again; otherwise nil.
func (h *hangs) err(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all[what]) == 0 {
		return nil
	}
	first := h.all[what][0]
	return fmt.Errorf("not asked again: %s since %s", first.text, first.since.Format(time.RFC3339))
}
