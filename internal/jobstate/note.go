package jobstate

import "slices"

// AddNote adds a note that is new to those of the report.
func (rec *Record) AddNote(note string) {
	if !slices.Contains(rec.Notes, note) {
		rec.Notes = append(rec.Notes, note)
	}
}

// AddLines adds lines that are new to those for the job's standard error. The report has them as
// well: nobody may be there to write to the standard error.
func (rec *Record) AddLines(lines []string) {
	for _, text := range lines {
		rec.AddNote(text)
		if !slices.Contains(rec.Told, text) {
			rec.Told = append(rec.Told, text)
		}
	}
}
