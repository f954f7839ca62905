package ledger

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

func TestVerifyFindsDamageAndDuplicates(t *testing.T) {
	l := fresh(t)
	l.maxSize = 700
	once := func(i int, key string) {
		must.NoError(t, l.AppendOnce(t.Context(), fmt.Sprintf("%d.srv", i), key, 1000, time.Now(), "report"))
	}
	for i := range 9 {
		once(i, "1")
	}
	once(3, "2") // another run is no duplicate
	verify := func() *Verification {
		t.Helper()
		found, err := l.Verify(t.Context(), func(int64, int64) {})
		must.NoError(t, err)
		return found
	}
	found := verify()
	reports := 0
	for _, f := range found.Files {
		reports += f.Reports
	}
	if reports != 10 || len(found.Files) < 2 || found.Damage != nil || len(found.Twice) > 0 {
		t.Fatalf("a whole ledger: %+v", found)
	}
	line, err := os.ReadFile(l.path + ".1")
	must.NoError(t, err)
	line = line[:bytes.IndexByte(line, '\n')+1]
	twice := jobNamed(line)
	current, err := os.ReadFile(l.path)
	must.NoError(t, err)
	broken := append(append(bytes.Clone(current), line...), line[:30]...)
	broken[sumEnd+3] ^= 1
	must.NoError(t, os.WriteFile(l.path, broken, 0o600))
	found = verify()
	last := found.Files[len(found.Files)-1]
	if found.Damage == nil || found.Damage.Count != 1 || last.Damaged != 1 || last.Torn != 30 ||
		!strings.Contains(found.Damage.Error(), "ledger.jsonl:1") {
		t.Errorf("damage: %+v, %v", last, found.Damage)
	}
	must.Equal(t, "", []Duplicate{{twice, "ledger.jsonl.1:1",
		fmt.Sprintf("ledger.jsonl:%d", bytes.Count(current, []byte("\n"))+1)}}, found.Twice)

	rotated, err := os.ReadFile(l.path + ".1")
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(l.path+".1", rotated[:len(rotated)-1], 0o600)) // no append mends that one
	if found := verify(); found.Damage == nil || found.Damage.Count != 2 {
		t.Errorf("an older file that was cut: %v", found.Damage)
	}
}

// A rotation that is cut off at any place costs no file but the oldest of five.
func TestRotationThatWasCutOffLosesNothing(t *testing.T) {
	for done := range rotated + 2 {
		l := fresh(t)
		l.maxSize = 100 // a line each
		for i := range rotated + 1 {
			add(t, l, fmt.Sprintf("%d.srv", i), strings.Repeat("x", 100))
		}
		for i := rotated; i > rotated-done && i > 0; i-- {
			must.NoError(t, os.Rename(rotatedPath(l.path, i-1), rotatedPath(l.path, i)))
		}
		add(t, l, "9.srv", "new")
		want := []string{"1.srv", "2.srv", "3.srv", "4.srv", "9.srv"}
		must.Equal(t, fmt.Sprint("after ", done), want, names(t, Open(l.path), Query{}))
	}
}

// A report that was written long before the host died over it is not written again.
func TestAppendOnceLooksBackToTheEndOfTheJob(t *testing.T) {
	l := fresh(t)
	l.maxSize = 600 << 10
	ended := time.Now()
	once := func() {
		must.NoError(t, l.AppendOnce(t.Context(), "1.srv", "1", 1000, ended, "report"))
	}
	once()
	for i := range 40 {
		add(t, l, fmt.Sprintf("1%d.srv", i), strings.Repeat("x", 50<<10))
	}
	once()
	if jobs := names(t, l, Query{}); len(jobs) != 41 {
		t.Errorf("%d entries, want 41", len(jobs))
	}
}

func TestQueriesChooseByTimeOwnerAndOrder(t *testing.T) {
	l := fresh(t)
	l.maxSize = 700
	for i := range 12 {
		must.NoError(t, l.Append(t.Context(), fmt.Sprintf("%d.srv", i), 1000+i%2, i))
	}
	old, err := os.ReadFile(l.path) // as if the lines of this file were of last year
	must.NoError(t, err)
	year := fmt.Sprintf(`"time":"%d-`, time.Now().UTC().Year())
	var aged []byte
	for line := range bytes.Lines(old) {
		text := bytes.Replace(line[sumEnd:len(line)-1], []byte(year), []byte(`"time":"2001-`), 1)
		aged = append(fmt.Appendf(aged, `{"sum":"%08x",`, checksum(text)), append(text, '\n')...)
	}
	must.NoError(t, os.WriteFile(l.path, aged, 0o600))
	recent := 12 - bytes.Count(old, []byte("\n"))
	if got := names(t, l, Query{Since: time.Now().Add(-time.Hour)}); len(got) != recent || got[0] != "0.srv" {
		t.Errorf("since an hour: %v, want the first %d", got, recent)
	}
	odd := func(uid int) bool { return uid == 1001 }
	must.Equal(t, "", []string{"11.srv", "9.srv", "7.srv", "5.srv", "3.srv", "1.srv"},
		names(t, l, Query{Of: odd, Newest: true}))
}

// A query for the newest says what was damaged among those, and nothing of older lines.
func TestNewestTellsOfDamageAsFarAsItReads(t *testing.T) {
	l := fresh(t)
	for i := range 6 {
		add(t, l, fmt.Sprintf("%d.srv", i), i)
	}
	text, err := os.ReadFile(l.path)
	must.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[1][sumEnd+40] ^= 1
	lines[4][sumEnd+40] ^= 1
	must.NoError(t, os.WriteFile(l.path, bytes.Join(lines, nil), 0o600))
	for most, want := range map[int]string{1: "", 2: "1 damaged line: ledger.jsonl:5", 9: "2 damaged lines"} {
		n := 0
		err := l.All(context.Background(), Query{Newest: true}, func(Entry) bool { n++; return n < most })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("of %d: %v, want %q", most, err, want)
		}
	}
}
