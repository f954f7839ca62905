package jobstate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

func TestTextsOfHooksAreBounded(t *testing.T) {
	rec := &Record{}
	rec.AddLines([]string{strings.Repeat("x", 1<<20)})
	for i := range 10 * maxTexts {
		rec.AddLines([]string{fmt.Sprint("line ", i), "line 0"})
		rec.AddNotes([]string{fmt.Sprint("note ", i)})
	}
	for _, list := range [][]string{rec.Told, rec.Notes} {
		if len(list) != maxTexts+1 || list[1] != "line 0" || list[maxTexts] != moreTexts ||
			len(list[0]) > hostapi.MaxLine+len("...") {
			t.Errorf("%d texts, the first of %d bytes, the last: %s", len(list), len(list[0]), list[len(list)-1])
		}
	}
	if rec.AddNote("the host's own"); !slices.Contains(rec.Notes, "the host's own") {
		t.Error("the host's own note is lost")
	}
}

// Strays that a user causes leave room for what the job's end is noted with.
func TestNotesAboutStraysLeaveRoomForOthers(t *testing.T) {
	rec := &Record{}
	for i := range 10 * maxTexts {
		rec.AddStray(fmt.Sprint("stray ", i))
	}
	if rec.AddNotes([]string{"why it ended"}); !slices.Contains(rec.Notes, "why it ended") {
		t.Errorf("%d notes, and not why the job ended", len(rec.Notes))
	}
}
