package jobstate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestTextsOfHooksAreBounded(t *testing.T) {
	rec := &Record{}
	rec.AddLines([]string{strings.Repeat("x", 1<<20)})
	for i := range 10 * hostapi.MaxTexts {
		rec.AddLines([]string{fmt.Sprint("line ", i), "line 0"})
		rec.AddNotes([]string{fmt.Sprint("note ", i)})
	}
	for _, list := range [][]string{rec.Told, rec.Notes} {
		if len(list) != hostapi.MaxTexts+1 || list[1] != "line 0" || list[hostapi.MaxTexts] != moreTexts ||
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
	for i := range 10 * hostapi.MaxTexts {
		rec.AddStray(fmt.Sprint("stray ", i))
	}
	if rec.AddNotes([]string{"why it ended"}); !slices.Contains(rec.Notes, "why it ended") {
		t.Errorf("%d notes, and not why the job ended", len(rec.Notes))
	}
}

// The store stamps notes with the change that adds them, also those of a daemon without times.
func TestNotesHaveTheTimeOfTheChangeThatAddsThem(t *testing.T) {
	s, err := Open(t.TempDir(), func(err error) { t.Error(err) })
	must.NoError(t, err)
	change := func(note string) (rec *Record, at time.Time) {
		before := time.Now().Truncate(time.Millisecond)
		must.NoError(t, s.Update("1.x", func(rec *Record) (*Record, error) {
			if rec == nil {
				rec = &Record{Job: &hostapi.Job{ID: "1.x"}, Notes: []string{"of an earlier daemon"}}
			}
			rec.AddNote(note)
			return rec, nil
		}))
		return s.Get("1.x"), before
	}
	first, _ := change("a")
	time.Sleep(2 * time.Millisecond)
	second, at := change("b")
	change("b") // adds nothing
	if len(second.NoteTimes) != 3 || !second.NoteTimes[1].Equal(first.NoteTimes[1]) || second.NoteTimes[2].Before(at) {
		t.Errorf("%v, then %v", first.NoteTimes, second.NoteTimes)
	}
	must.Equal(t, "times after a change without a note", second.NoteTimes, s.Get("1.x").NoteTimes)
}
