package serieslog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
)

// FuzzJoin reads a file of a finished job's series, damaged or not, into the job's report. The
// report is as it was then, or has series that are in bounds.
func FuzzJoin(f *testing.F) {
	const archive = `{"job":"1.a","start":"2026-03-01T12:00:00Z","hosts":{"n1":{"ncpus":1,"devices":[{"id":"a"}]}}}`
	for _, text := range []string{
		`{"start":"2026-03-01T12:00:00Z","hosts":{"n1":{"host":{"times":[1,2],"columns":{"cpu":[1,null]}}}}}`,
		`{"start":"2026-03-01T12:00:00Z","hosts":{"n1":{"devices":{"a":{"times":[3]},"b":null}},"n2":{}}}`,
		`{"start":null,"hosts":{"n1":{"host":{"times":[2,1]}}}}`, `null`, `{`,
	} {
		f.Add([]byte(text), true, []byte(archive))
		f.Add([]byte(text), false, []byte(archive))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte, compress bool, text []byte) {
		if compress { // random bytes never get past the checksum
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(content)
			must.NoError(t, z.Close())
			content = b.Bytes()
		}
		must.NoError(t, os.WriteFile(pathOf(dir, "1.a"), content, 0o600))
		before, err := report.FromArchive(text)
		if err != nil || before.Job != "1.a" {
			return
		}
		joined, err := Join(dir, text)
		if err != nil {
			must.Equal(t, "the report beside an error", string(text), string(joined))
			return
		}
		after, err := report.FromArchive(joined)
		must.NoError(t, err)
		if len(after.Hosts) != len(before.Hosts) || !json.Valid(joined) {
			t.Errorf("%s became %s", text, joined)
		}
		for name, u := range after.Hosts {
			if err := u.CheckSeries(); err != nil && before.Hosts[name].CheckSeries() == nil {
				t.Errorf("%s: %v in %s", name, err, joined)
			}
		}
	})
}
