package jobstate

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// FuzzDecode reads the file of a record. A record that is taken is written and read as the same.
func FuzzDecode(f *testing.F) {
	whole, err := encode("1.a", sample("1.a"))
	must.NoError(f, err)
	f.Add(whole)
	for _, text := range []string{`{"job":{"id":"1.a"},"hosts":{"n1":null},"timers":{"cgroup":{}}}`, `{"job":null}`, `null`,
		`{"job":{"id":"2.a"}}`, `{"job":{"id":"1.a"},"launched":{"mono":-1},"suspended":{},"walltime_limit":-1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := decode("1.a", b)
		if err != nil {
			if rec != nil {
				t.Errorf("%q: %+v beside %v", b, rec, err)
			}
			return
		}
		rec.Elapsed(Moment{Wall: time.Now()})
		once, err := encode("1.a", rec)
		must.NoError(t, err)
		again, err := decode("1.a", once)
		must.NoError(t, err)
		twice, err := encode("1.a", again)
		must.NoError(t, err)
		must.Equal(t, "written, read and written", string(once), string(twice))
	})
}
