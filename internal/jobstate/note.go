package jobstate

import (
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// moreTexts is the text after the last.
const moreTexts = "hookhost: more was reported about this job than its record can hold"

// AddNote adds a note of the host to the report, unless it is already there.
func (rec *Record) AddNote(note string) {
	if !slices.Contains(rec.Notes, note) {
		rec.Notes = append(rec.Notes, note)
	}
}

// AddNotes adds new notes of hooks to the report: at most hostapi.MaxTexts, each cut at
// hostapi.MaxLine. A hook may report new ones every second for as long as the job lives.
func (rec *Record) AddNotes(notes []string) { rec.Notes = add(rec.Notes, notes, hostapi.MaxTexts) }

// AddStray is AddNotes for a note about a stray. A user can cause any number of strays, so such
// notes stop at a quarter of hostapi.MaxTexts, and what ends the job is still noted.
func (rec *Record) AddStray(note string) {
	rec.Notes = add(rec.Notes, []string{note}, hostapi.MaxTexts/4)
}

// AddLines adds new lines for the job's standard error, with the same bounds. They are also in the
// report, because there may be nobody to write to the standard error.
func (rec *Record) AddLines(lines []string) {
	rec.AddNotes(lines)
	rec.Told = add(rec.Told, lines, hostapi.MaxTexts)
}

func add(list, texts []string, most int) []string {
	for _, text := range texts {
		text = hostapi.Clip(text, hostapi.MaxLine)
		if len(list) >= most && !slices.Contains(list, text) {
			text = moreTexts
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// StampNotes sets the time of notes that have none. The store does this with each change, so a
// note's time is that of the change that added it.
func (rec *Record) StampNotes(at time.Time) {
	at = at.Round(0).Truncate(time.Millisecond)
	for len(rec.NoteTimes) < len(rec.Notes) {
		rec.NoteTimes = append(rec.NoteTimes, at)
	}
}
