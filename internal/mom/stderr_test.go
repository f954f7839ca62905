package mom

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// A line for which the pipe may lack room does not hold up the job. It is written after its end.
func TestLineWaitsForRoomUntilTheJobHasEnded(t *testing.T) {
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	s := &stderr{file: w}
	long := strings.Repeat("x", 1<<20)
	s.add([]string{"first", long, "last"})
	s.flush(0)
	s.flush(time.Millisecond)
	if s.written != 1 {
		t.Fatalf("%d lines are written, want one", s.written)
	}
	go func() { s.flush(-1); w.Close() }()
	got, err := io.ReadAll(r)
	if want := "first\n" + long + "\nlast\n"; err != nil || string(got) != want {
		t.Errorf("%d bytes are written, %v; want %d", len(got), err, len(want))
	}
}
