package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"time"
)

const (
	sumPrefix = `{"sum":"`
	sumSuffix = `",`
	sumEnd    = len(sumPrefix) + 8 + len(sumSuffix) // where the summed part begins
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// formatLine returns e as a line, newline included. A report that is not JSON or too long is an
// error, and a key that has what JSON escapes.
func formatLine(e Entry) ([]byte, error) {
	if e.UID < 0 || e.UID >= noUID {
		e.UID = -1
	}
	if quoted, _ := json.Marshal(e.Key); string(quoted) != `"`+e.Key+`"` {
		return nil, fmt.Errorf("key %q: not plain text", e.Key)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(text) > maxLine-sumEnd {
		return nil, fmt.Errorf("report of %d bytes exceeds %d", len(e.Report), maxLine)
	}
	text = text[1:] // without the brace; an Entry's fields come in the order of their declaration
	b := make([]byte, 0, sumEnd+len(text)+1)
	b = fmt.Appendf(b, "%s%08x%s", sumPrefix, checksum(text), sumSuffix)
	return append(append(b, text...), '\n'), nil
}

// linePrefix returns how the summed part of every line of that job and key begins.
func linePrefix(job, key string) []byte {
	quote := func(s string) []byte { b, _ := json.Marshal(s); return b } // a string never fails
	return fmt.Appendf(nil, `"job":%s,"key":%s,`, quote(job), quote(key))
}

// hasPrefix reports whether the summed part of a line that checkLine accepts begins with prefix.
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

// head is what a line begins with, after its sum.
type head struct {
	job, key []byte // parts of the line
	uid      uint32 // noUID when not known
	time     uint32 // Unix seconds; 0 when not known
}

// parseHead returns the head of a line without its newline. A line that is not as it was written is
// an error. A line of a hookhost that did not write the uid is of no known owner.
func parseHead(line []byte) (head, error) {
	if err := checkLine(line); err != nil {
		return head{}, err
	}
	rest, found := bytes.CutPrefix(line[sumEnd:], []byte(`"job":"`))
	job, rest, ended := bytes.Cut(rest, []byte(`",`))
	if !found || !ended || bytes.ContainsRune(job, '\\') {
		return head{}, errors.New("line without a job")
	}
	h := head{job: job, uid: noUID}
	if key, ok := bytes.CutPrefix(rest, []byte(`"key":"`)); ok {
		if h.key, rest, ok = bytes.Cut(key, []byte(`",`)); !ok {
			return head{}, errors.New("line with half a key")
		}
	}
	if text, ok := bytes.CutPrefix(rest, []byte(`"uid":`)); ok {
		text, rest, _ = bytes.Cut(text, []byte(","))
		if uid, err := strconv.ParseUint(string(text), 10, 32); err == nil {
			h.uid = uint32(uid)
		}
	}
	if text, ok := bytes.CutPrefix(rest, []byte(`"time":"`)); ok {
		text, _, _ = bytes.Cut(text[:min(len(text), 64)], []byte(`"`))
		if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
			h.time = seconds(at)
		}
	}
	return h, nil
}

// seconds returns Unix seconds as an entry of the index has them.
func seconds(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), math.MaxUint32)) }

// parseLine returns the entry in a line without its newline, and keeps no part of line.
func parseLine(line []byte) (Entry, error) {
	if err := checkLine(line); err != nil {
		return Entry{}, err
	}
	e := Entry{UID: -1}
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, err
	}
	if e.Job == "" || len(e.Report) == 0 {
		return Entry{}, errors.New("line without a job or a report")
	}
	if e.UID < -1 || e.UID >= noUID {
		return Entry{}, fmt.Errorf("uid %d", e.UID)
	}
	return e, nil
}
