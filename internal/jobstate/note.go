package jobstate

import "slices"

// AddNote adds a note to the report, unless it is already there.
func (rec *Record) AddNote(note string) {
	if !slices.Contains(rec.Notes, note) {
		rec.Notes = append(rec.Notes, note)
	}
}

// AddLines adds new lines for the job's standard error. They are also in the report, because there
// may be nobody to write to the standard error.
func (rec *Record) AddLines(lines []string) {
	for _, text := range lines {
		rec.AddNote(text)
		if !slices.Contains(rec.Told, text) {
			rec.Told = append(rec.Told, text)
		}
	}
}
