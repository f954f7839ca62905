package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	sumPrefix = `{"sum":"`
	sumSuffix = `",`
	sumEnd    = len(sumPrefix) + 8 + len(sumSuffix) // where the summed part begins
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// formatLine returns e as a line, newline included. It fails when e's report is not JSON or too long.
func formatLine(e Entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(text) > maxLine-sumEnd {
		return nil, fmt.Errorf("report of %d bytes exceeds %d", len(e.Report), maxLine)
	}
	text = text[1:] // without the brace; an Entry's fields come in the order of their declaration, job and key first
	b := make([]byte, 0, sumEnd+len(text)+1)
	b = fmt.Appendf(b, "%s%08x%s", sumPrefix, checksum(text), sumSuffix)
	return append(append(b, text...), '\n'), nil
}

// linePrefix returns how the summed part of every line of that job begins; with a key, of every line with that key too.
func linePrefix(job, key string) []byte {
	quote := func(s string) []byte { b, _ := json.Marshal(s); return b } // a string never fails
	b := fmt.Appendf(nil, `"job":%s,`, quote(job))
	if key != "" {
		b = fmt.Appendf(b, `"key":%s,`, quote(key))
	}
	return b
}

// hasPrefix tells whether the summed part of a line that checkLine accepts begins with prefix.
func hasPrefix(line, prefix []byte) bool { return bytes.HasPrefix(line[sumEnd:], prefix) }

// checkLine returns an error unless line is as it was written. line has no newline.
func checkLine(line []byte) error {
	if len(line) < sumEnd || string(line[:len(sumPrefix)]) != sumPrefix ||
		string(line[sumEnd-len(sumSuffix):sumEnd]) != sumSuffix {
		return errors.New("not a line of a ledger")
	}
	want, sum := line[len(sumPrefix):sumEnd-len(sumSuffix)], uint32(0)
	for _, c := range want {
		switch {
		case '0' <= c && c <= '9':
			sum = sum<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			sum = sum<<4 | uint32(c-'a'+10)
		default:
			return fmt.Errorf("checksum %q", want)
		}
	}
	if got := checksum(line[sumEnd:]); got != sum {
		return fmt.Errorf("checksum %08x, want %s", got, want)
	}
	return nil
}

// parseLine returns the entry in a line without its newline. It keeps no part of line.
func parseLine(line []byte) (Entry, error) {
	if err := checkLine(line); err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, err
	}
	if e.Job == "" || len(e.Report) == 0 {
		return Entry{}, errors.New("line without a job or a report")
	}
	return e, nil
}
