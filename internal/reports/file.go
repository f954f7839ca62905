package reports

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

// maxText bounds the JSON of a file: 50,000 hosts with their series.
const maxText = 80 << 20

// A file is one JSON object, the report with the further key "series", in two gzip members. The
// first one ends before that key, so a list reads no series. The second one is the rest. Programs
// such as zcat join them.

// encode returns the content of a report's file. r itself has no series.
func (s *Store) encode(r *report.Report, points series.Job) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	rest := []byte("}\n")
	if len(points) > 0 {
		of, err := json.Marshal(points)
		if err != nil {
			return nil, err
		}
		rest = fmt.Appendf(nil, ",\"series\":%s}\n", of)
	}
	if len(text)+len(rest) > maxText {
		return nil, fmt.Errorf("report of %d bytes exceeds %d", len(text)+len(rest), maxText)
	}
	var content bytes.Buffer
	z := s.writers.Get().(*gzip.Writer)
	defer s.writers.Put(z)
	for _, member := range [][]byte{bytes.TrimSuffix(text, []byte("}")), rest} {
		z.Reset(&content)
		if _, err := z.Write(member); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
	}
	return content.Bytes(), nil
}

// readBare returns the JSON of a report without its series.
func readBare(z *gzip.Reader, f file) (json.RawMessage, error) {
	text, err := read(z, f, false)
	return append(text, '}'), err
}

// readWhole returns a report with its series.
func readWhole(f file) (*report.Report, error) {
	text, err := read(new(gzip.Reader), f, true)
	if err != nil {
		return nil, err
	}
	return report.FromArchive(text)
}

func read(z *gzip.Reader, f file, whole bool) ([]byte, error) {
	r, err := f.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := z.Reset(r); err != nil {
		return nil, err
	}
	z.Multistream(whole)
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	if err == nil && len(text) > maxText {
		err = errors.New("too long")
	}
	return text, err
}
