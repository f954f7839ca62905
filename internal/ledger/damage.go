package ledger

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// DamageError tells of lines that are not what was once written. All other lines are right.
type DamageError struct {
	Path  string
	Count int           // of damaged lines
	Lines []DamagedLine // the first of them, some hundreds at most
}

// DamagedLine is where a damaged line is.
type DamagedLine struct {
	File string // the name of the ledger's file
	Line int    // its number there, from 1
	Job  string // the job that the line still names; "" where it names none

	at int64 // where it begins
}

const (
	keptDamage  = 500 // lines of a file that are kept
	namedDamage = 20  // lines that a message names
)

func (e *DamageError) Error() string {
	var lines []string
	for _, d := range e.Lines[:min(len(e.Lines), namedDamage)] {
		lines = append(lines, d.String())
	}
	if more := e.Count - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	noun := "lines"
	if e.Count == 1 {
		noun = "line"
	}
	return fmt.Sprintf("read %s: %d damaged %s: %s", e.Path, e.Count, noun, strings.Join(lines, ", "))
}

// String is as "ledger.jsonl:3 (job 12.srv)".
func (d DamagedLine) String() string {
	place := fmt.Sprintf("%s:%d", d.File, d.Line)
	if d.Job != "" {
		place += " (job " + d.Job + ")"
	}
	return place
}

// damaged is what is damaged of a file.
type damaged struct {
	count int
	lines []DamagedLine // without File
}

func (d *damaged) add(line DamagedLine) {
	if d.count++; len(d.lines) < keptDamage {
		d.lines = append(d.lines, line)
	}
}

// of returns the damaged lines that name a job and begin after an offset.
func (d damaged) of(job string, after int64) damaged {
	var named damaged
	for _, line := range d.lines {
		if line.Job == job && line.at > after {
			named.add(line)
		}
	}
	return named
}

// after returns the damaged lines that begin after an offset.
func (d damaged) after(at int64) damaged {
	var later damaged
	for _, line := range d.lines {
		if line.at > at {
			later.add(line)
		}
	}
	return later
}

// orNil returns nil where nothing is damaged.
func (e *DamageError) orNil() error {
	if e.Count == 0 {
		return nil
	}
	return e
}

// add counts the damaged lines of a file.
func (e *DamageError) add(d damaged, file string) {
	e.Count += d.count
	for _, line := range d.lines {
		line.File = filepath.Base(file)
		e.Lines = append(e.Lines, line)
	}
}

// jobNamed returns the job that a damaged line names, "" where that is not legible.
func jobNamed(line []byte) string {
	_, rest, _ := bytes.Cut(line[:min(len(line), 1024)], []byte(`"job":"`))
	job, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || hostapi.CheckJobID(string(job)) != nil {
		return ""
	}
	return string(job)
}
