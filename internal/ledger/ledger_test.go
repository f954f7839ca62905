package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// The test binary is also the processes that append beside the test: LEDGER_CHILD is how many
// lines, 0 for no end.
func TestMain(m *testing.M) {
	if text := os.Getenv("LEDGER_CHILD"); text != "" {
		var n int
		fmt.Sscan(text, &n)
		l := Open(os.Getenv("LEDGER_PATH"))
		if backlog := os.Getenv("LEDGER_BACKLOG"); backlog != "" {
			appendAndDrain(OpenWithBacklog(os.Getenv("LEDGER_PATH"), backlog))
		}
		for i := 0; n == 0 || i < n; i++ {
			if err := l.AppendOnce(context.Background(), fmt.Sprintf("%d.srv", os.Getpid()), fmt.Sprint(i), 1000,
				time.Now(), report(i)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(i)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type testReport struct {
	N   int
	Pad string
}

// report is a report of a size of its own, some longer than a block.
func report(n int) testReport {
	size := n * 37 % 3000
	if n%50 == 7 {
		size = 2 * block
	}
	return testReport{N: n, Pad: strings.Repeat("x", size)}
}

func TestLedgerCountsAppendsAndFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l", "ledger.jsonl")
	l := Open(path)
	ctx := t.Context()
	must.NoError(t, l.AppendOnce(ctx, "1.srv", "1", 0, time.Time{}, report(1)),
		l.AppendOnce(ctx, "1.srv", "1", 0, time.Time{}, report(1)),
		l.Append(ctx, "2.srv", 0, report(2)))
	must.NoError(t, os.Remove(path), os.Mkdir(path, 0o700))
	if err := l.Append(ctx, "3.srv", 0, report(3)); err == nil {
		t.Error("a directory was appended to")
	}
	if appended, failed := l.Counts(); appended != 2 || failed != 1 {
		t.Errorf("%d appended, %d failed, want 2 and 1", appended, failed)
	}
}

func startChild(t *testing.T, path string, n int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("LEDGER_CHILD=%d", n), "LEDGER_PATH="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

func fresh(t testing.TB) *Ledger { return Open(filepath.Join(t.TempDir(), "state", "ledger.jsonl")) }

func add(t testing.TB, l *Ledger, job string, v any) {
	t.Helper()
	must.NoError(t, l.Append(context.Background(), job, 1000, v))
}

// all returns job and report of every entry.
func all(t testing.TB, l *Ledger) ([]string, error) {
	t.Helper()
	var got []string
	err := l.All(context.Background(), Query{},
		func(e Entry) bool { got = append(got, e.Job+" "+string(e.Report)); return true })
	return got, err
}

func wantAll(t testing.TB, l *Ledger, want ...string) {
	t.Helper()
	got, err := all(t, l)
	if err != nil {
		t.Error(err)
	}
	must.Equal(t, "entries", want, got)
}

func wantLast(t testing.TB, l *Ledger, job, want string) {
	t.Helper()
	got, found, err := l.Last(context.Background(), job)
	if err != nil || found != (want != "") || string(got) != want {
		t.Errorf("last of %s: %s, %t, %v, want %s", job, got, found, err, want)
	}
}

func TestAppendedLinesAreReadBack(t *testing.T) {
	l := fresh(t)
	wantAll(t, l)
	wantLast(t, l, "1.srv", "")
	if _, err := os.Stat(l.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading made the file: %v", err)
	}
	add(t, l, "1.srv", 1)
	add(t, l, "2.srv", map[string]string{"name": "<a>\n&"})
	add(t, l, "1.srv", json.RawMessage("{ \"b\": 2\n}"))
	add(t, l, "1[2].srv", nil)
	const two = `{"name":"\u003ca\u003e\n\u0026"}`
	wantAll(t, l, "1.srv 1", "2.srv "+two, `1.srv {"b":2}`, "1[2].srv null")
	wantLast(t, l, "1.srv", `{"b":2}`)
	wantLast(t, l, "2.srv", two)
	wantLast(t, l, "1[2].srv", "null")
	wantLast(t, l, "1", "")
	wantLast(t, l, "1.sr", "")
	wantLast(t, l, `"},`, "")

	n := 0
	if err := l.All(t.Context(), Query{}, func(Entry) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("stopped after %d, %v", n, err)
	}
	for path, perm := range map[string]os.FileMode{l.path: 0o600, l.path + ".lock": 0o600,
		filepath.Dir(l.path): os.ModeDir | 0o700} {
		st, err := os.Stat(path)
		if err != nil || st.Mode() != perm {
			t.Errorf("%s: %v, %v, want %v", path, st.Mode(), err, perm)
		}
	}
	file, err := os.Open(l.path)
	must.NoError(t, err)
	defer file.Close()
	for dec := json.NewDecoder(file); dec.More(); {
		var line struct {
			Sum, Job string
			Time     time.Time
			Report   any
		}
		if err := dec.Decode(&line); err != nil || line.Sum == "" || line.Job == "" ||
			time.Since(line.Time) > time.Hour {
			t.Errorf("line for other tools: %+v, %v", line, err)
		}
	}
}

func TestAppendRejects(t *testing.T) {
	l := fresh(t)
	for name, err := range map[string]error{
		"bad id":    l.Append(t.Context(), "../x", 1000, 1),
		"no id":     l.Append(t.Context(), "", 1000, 1),
		"no json":   l.Append(t.Context(), "1.srv", 1000, func() {}),
		"too long":  l.Append(t.Context(), "1.srv", 1000, strings.Repeat("x", maxLine)),
		"odd key":   l.AppendOnce(t.Context(), "1.srv", `a","uid":5`, 1000, time.Time{}, 1),
		"empty key": l.AppendOnce(t.Context(), "1.srv", "", 1000, time.Time{}, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	wantAll(t, l)
}

func TestAppendOnce(t *testing.T) {
	l := fresh(t)
	l.maxSize = 300
	once := func(job, key string, v any) {
		t.Helper()
		must.NoError(t, l.AppendOnce(t.Context(), job, key, 1000, time.Time{}, v))
	}
	once("1.srv", "1", "a")
	once("1.srv", "1", "b")
	once("1.srv", "2", "c") // run again
	once("2.srv", "1", "d")
	once("1.srv", "1", "e") // in the file before by now
	add(t, l, "1.srv", "f")
	if _, err := os.Stat(l.path + ".1"); err != nil {
		t.Fatal(err)
	}
	wantAll(t, l, `1.srv "a"`, `1.srv "c"`, `2.srv "d"`, `1.srv "f"`)
}

func TestRotationKeepsTheNewest(t *testing.T) {
	l := fresh(t)
	l.maxSize = 1000
	for i := range 100 {
		add(t, l, fmt.Sprintf("%d.srv", i), strings.Repeat("x", 100))
		if got, err := all(t, l); err != nil || !strings.HasPrefix(got[len(got)-1], fmt.Sprintf("%d.srv ", i)) {
			t.Fatalf("entry %d: %d entries, %v", i, len(got), err)
		}
	}
	names, err := filepath.Glob(l.path + "*")
	must.NoError(t, err)
	want := []string{l.path, l.path + ".1", l.path + ".2", l.path + ".3", l.path + ".4", l.path + ".lock"}
	must.Equal(t, "", want, names)
	for _, name := range names {
		if st, err := os.Stat(name); err != nil || st.Size() > l.maxSize {
			t.Errorf("%s: %v, %v", name, st.Size(), err)
		}
	}
	got, err := all(t, l)
	if err != nil || len(got) < 20 || len(got) > 30 {
		t.Errorf("%d entries, %v", len(got), err)
	}
	oldest, _, _ := strings.Cut(got[0], " ")
	wantLast(t, l, oldest, `"`+strings.Repeat("x", 100)+`"`)
	wantLast(t, l, "0.srv", "")
}

// TestTornLinesAreLeftOut cuts the file at every place and fills what was lost with what a disk
// leaves. Readers see the whole lines, and so they do after the next append.
func TestTornLinesAreLeftOut(t *testing.T) {
	l := fresh(t)
	for i := range 3 {
		add(t, l, "1.srv", i)
	}
	whole, err := os.ReadFile(l.path)
	must.NoError(t, err)
	for cut := range len(whole) {
		for _, fill := range [][]byte{nil, make([]byte, 100), bytes.Repeat([]byte("x"), block)} {
			file := append(bytes.Clone(whole[:cut]), fill...)
			must.NoError(t, os.WriteFile(l.path, file, 0o600))
			l = Open(l.path) // a crash ends those who have read it
			var want []string
			for i := range bytes.Count(file, []byte("\n")) {
				want = append(want, fmt.Sprint("1.srv ", i))
			}
			wantAll(t, l, want...)
			last := ""
			if n := len(want); n > 0 {
				last = fmt.Sprint(n - 1)
			}
			wantLast(t, l, "1.srv", last)
			add(t, l, "1.srv", 9)
			wantAll(t, l, append(want, "1.srv 9")...)
			if t.Failed() {
				t.Fatalf("cut at %d, filled with %d bytes", cut, len(fill))
			}
		}
	}
}

// Damaged lines cost nothing but themselves, and are told with their places and jobs.
func TestDamagedLines(t *testing.T) {
	l := fresh(t)
	for i := range 5 {
		add(t, l, fmt.Sprintf("%d.srv", i), i)
	}
	b, err := os.ReadFile(l.path)
	must.NoError(t, err)
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines[1][sumEnd+40] ^= 1
	lines[3] = []byte("\nbanana\n")
	must.NoError(t, os.WriteFile(l.path, bytes.Join(lines, nil), 0o600))
	wantDamage := func(err error, want ...string) {
		t.Helper()
		var d *DamageError
		if !errors.As(err, &d) || d.Count != len(want) || !strings.Contains(err.Error(), strings.Join(want, ", ")) {
			t.Errorf("error %v, want damage at %q", err, want)
		}
	}
	every := []string{"ledger.jsonl:2 (job 1.srv)", "ledger.jsonl:4", "ledger.jsonl:5"}
	got, err := all(t, l)
	wantDamage(err, every...)
	must.Equal(t, "", []string{"0.srv 0", "2.srv 2", "4.srv 4"}, got)
	wantLast(t, l, "4.srv", "4")
	wantLast(t, l, "2.srv", "2")
	_, found, err := l.Last(t.Context(), "3.srv")
	wantDamage(err, every...)
	if found {
		t.Error("a damaged line was found")
	}
	_, _, err = l.Last(t.Context(), "1.srv")
	wantDamage(err, every[0])
	add(t, l, "1.srv", "again")
	wantLast(t, l, "1.srv", `"again"`)
}

// A line that is damaged after it was indexed is reported like one that was damaged before. So it
// is when somebody has put other lines in its place.
func TestDamageAfterIndexing(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"a flipped bit":  func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"a removed line": func(b []byte) []byte { return bytes.Join(bytes.SplitAfter(b, []byte("\n"))[1:], nil) },
		"swapped lines": func(b []byte) []byte {
			x := bytes.SplitAfter(b, []byte("\n"))
			x[0], x[1] = x[1], x[0]
			return bytes.Join(x, nil)
		},
		"an earlier size": func(b []byte) []byte { return b[:len(b)/3] },
		"nothing left":    func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t)
			for i := range 3 {
				add(t, l, fmt.Sprintf("%d.srv", i), i)
			}
			wantAll(t, l, "0.srv 0", "1.srv 1", "2.srv 2")
			b, err := os.ReadFile(l.path)
			must.NoError(t, err)
			must.NoError(t, os.WriteFile(l.path, change(b), 0o600))
			for range 2 { // the first may find its index wrong, and tells nothing wrong then
				for i := range 3 {
					got, found, err := l.Last(t.Context(), fmt.Sprintf("%d.srv", i))
					if found && (err != nil || string(got) != fmt.Sprint(i)) {
						t.Errorf("last of %d: %s, %v", i, got, err)
					}
				}
			}
			got, err := all(t, l)
			want, wantErr := all(t, Open(l.path))
			if d := cmp.Diff(want, got); d != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%v, want %v: %s", err, wantErr, d)
			}
		})
	}
}

// A list has the entries of one owner; a line without an owner is in nobody's but root's.
func TestAllOfAnOwner(t *testing.T) {
	l := fresh(t)
	l.maxSize = 400
	for i := range 12 {
		must.NoError(t, l.Append(t.Context(), fmt.Sprintf("%d.srv", i), 1000+i%3-1, i))
	}
	for _, uid := range []int{-1, -5, noUID, 1 << 40} {
		must.NoError(t, l.Append(t.Context(), "99.srv", uid, uid))
	}
	for uid, want := range map[int]string{1000: "[1 4 7 10]", 1001: "[2 5 8 11]", 7: "[]",
		-1: "[-1 -5 4294967295 1099511627776]"} {
		got := []string{}
		err := l.All(t.Context(), Query{Of: func(owner int) bool { return owner == uid }}, func(e Entry) bool {
			got = append(got, string(e.Report))
			return true
		})
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("of uid %d: %v, %v; want %s", uid, got, err, want)
		}
	}
	line, err := formatLine(Entry{Job: "1.srv", Report: json.RawMessage("1")})
	must.NoError(t, err)
	old := bytes.Replace(line[sumEnd:len(line)-1], []byte(`"uid":0,`), nil, 1)
	line = append(fmt.Appendf(nil, `{"sum":"%08x",`, checksum(old)), old...)
	h, err := parseHead(line)
	e, err2 := parseLine(line)
	if err != nil || err2 != nil || h.uid != noUID || e.UID != -1 {
		t.Errorf("a line of an earlier hookhost: uid %d and %d, %v, %v", h.uid, e.UID, err, err2)
	}
}

// readBytes is what this process has read from files so far.
func readBytes(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// However many ask, and go away, the ledger is read once, and by one at a time; what is appended
// costs no more than itself.
func TestQuestionsReadTheLedgerOnce(t *testing.T) {
	l := fresh(t)
	l.maxSize = 6 << 20
	add(t, l, "1.srv", strings.Repeat("x", 1200))
	line, err := os.ReadFile(l.path)
	must.NoError(t, err)
	const lines = 4000
	for i := range 3 {
		must.NoError(t, os.WriteFile(rotatedPath(l.path, i), bytes.Repeat(line, lines), 0o600))
	}
	size := int64(3 * lines * len(line))
	const slack = 1 << 20 // of the files of /proc, and of each file's last block

	before := readBytes(t)
	var asking sync.WaitGroup
	for i := range 120 {
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			cancel() // gone before it begins
		}
		asking.Go(func() {
			_, found, err := l.Last(ctx, "7.srv")
			if found || err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%t, %v", found, err)
			}
		})
		asking.Go(func() { // goes away while it is read
			l.All(ctx, Query{Of: func(int) bool { cancel(); return false }}, func(Entry) bool { return false })
		})
	}
	asking.Wait()
	if read := readBytes(t) - before; read > size+slack {
		t.Errorf("240 questions read %d bytes of a ledger of %d", read, size)
	}
	before = readBytes(t)
	for range 1000 {
		wantLast(t, l, "7.srv", "")
	}
	if read := readBytes(t) - before; read > slack {
		t.Errorf("1000 further questions read %d bytes", read)
	}
	add(t, l, "7.srv", "new")
	wantLast(t, l, "7.srv", `"new"`)
}

// A caller who has gone is not waited for, whoever reads.
func TestWaitForTheLedgerEndsWithItsCaller(t *testing.T) {
	l := fresh(t)
	add(t, l, "1.srv", 1)
	l.reading <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, _, err := l.Last(ctx, "1.srv")
		failed <- err
	}()
	go func() { failed <- l.All(ctx, Query{}, func(Entry) bool { return true }) }()
	cancel()
	for range 2 {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	add(t, l, "2.srv", 2) // an append waits for no reader
	<-l.reading
	wantLast(t, l, "2.srv", "2")
}

// A reader of a list who stops reading holds up no other, also when the files rotate away
// meanwhile.
func TestSlowReaderOfAList(t *testing.T) {
	l := fresh(t)
	l.maxSize = 3 << 20
	for i := range 8 {
		add(t, l, fmt.Sprintf("%d.srv", i), strings.Repeat("x", 1<<20))
	}
	n := 0
	err := l.All(t.Context(), Query{}, func(Entry) bool {
		if n++; n == 1 {
			for i := range 20 {
				add(t, l, fmt.Sprintf("1%d.srv", i), strings.Repeat("x", 1<<20))
				wantLast(t, l, "3.srv", map[bool]string{true: `"` + strings.Repeat("x", 1<<20) + `"`}[i < 4])
			}
		}
		return true
	})
	if err != nil || n == 0 || n > 8 {
		t.Errorf("%d entries, %v", n, err)
	}
	if len(l.known) > rotated+2 {
		t.Errorf("%d files are known", len(l.known))
	}
}

// TestProcessesAppendAtOnce has several processes append at once, rotation included: every line is
// there once.
func TestProcessesAppendAtOnce(t *testing.T) {
	l := fresh(t)
	const writers, each = 6, 60
	var cmds []*exec.Cmd
	for range writers {
		cmd, lines := startChild(t, l.path, each)
		go func() {
			for lines.Scan() {
			}
		}()
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	next := map[string]int{}
	err := l.All(t.Context(), Query{}, func(e Entry) bool {
		var r testReport
		if err := json.Unmarshal(e.Report, &r); err != nil || r != report(next[e.Job]) || e.Key != fmt.Sprint(r.N) {
			t.Errorf("job %s: entry %d, %v, want %d", e.Job, r.N, err, next[e.Job])
		}
		next[e.Job]++
		return true
	})
	if err != nil || len(next) != writers {
		t.Errorf("%d jobs, %v", len(next), err)
	}
	for job, n := range next {
		if n != each {
			t.Errorf("job %s: %d entries, want %d", job, n, each)
		}
	}
}

// TestKilledWriterLosesNothingStored kills an appending process again and again: what it knew to be
// stored is there, nothing is damaged.
func TestKilledWriterLosesNothingStored(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	l := fresh(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		cmd, out := startChild(t, l.path, 0)
		told := make(chan int, 1)
		go func() {
			n := 0
			for out.Scan() {
				n++
			}
			told <- n
		}()
		time.Sleep(time.Duration(rnd.IntN(30_000)) * time.Microsecond) // the point is that nobody knows where it is
		cmd.Process.Kill()
		n := <-told
		cmd.Wait()

		stored := 0
		must.NoError(t, l.All(t.Context(), Query{}, func(e Entry) bool {
			if e.Job == fmt.Sprintf("%d.srv", cmd.Process.Pid) {
				stored++
			}
			return true
		}))
		if stored < n || stored > n+1 {
			t.Fatalf("%d entries stored, the writer told %d", stored, n)
		}
	}
}

func TestLockIsBounded(t *testing.T) {
	l := fresh(t)
	add(t, l, "1.srv", 1)
	hold, err := os.Open(l.path + ".lock")
	must.NoError(t, err)
	must.NoError(t, unix.Flock(int(hold.Fd()), unix.LOCK_EX))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(gone, "1.srv", 1000, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	l.timeout = 20 * time.Millisecond
	if err := l.Append(t.Context(), "1.srv", 1000, 3); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), l.path+".lock") {
		t.Errorf("own bound: %v", err)
	}
	wantLast(t, l, "1.srv", "1") // readers need no lock
	hold.Close()
	l.timeout = lockTimeout
	add(t, l, "1.srv", 4)
	wantAll(t, l, "1.srv 1", "1.srv 4")
}

func FuzzParseLine(f *testing.F) {
	line, err := formatLine(Entry{Job: "12.srv", Key: "1", Time: time.Unix(1, 0).UTC(),
		Report: json.RawMessage(`{"a":1}`)})
	must.NoError(f, err)
	f.Add(line[:len(line)-1], false)
	for _, text := range []string{"", "{}", `"job":"1","time":"2026-01-01T00:00:00Z","report":1}`, `"report":null}`,
		`"job":1}`,
		`"job":"1","key":"a\u0022","uid":5,"time":"2026-01-01T00:00:00Z","report":1}`, `"job":"1","uid":-1,"report":1}`} {
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, sign bool) {
		if sign { // random bytes never get past the checksum
			line = append(fmt.Appendf(nil, `{"sum":"%08x",`, checksum(line)), line...)
		}
		e, err := parseLine(line)
		if err != nil {
			must.Equal(t, "", Entry{}, e)
			return
		}
		again, err := formatLine(e)
		if err != nil {
			if strings.Contains(err.Error(), "not plain text") {
				return // no key of ours
			}
			t.Fatal(err)
		}
		h, err := parseHead(again[:len(again)-1])
		if plain := hostapi.CheckJobID(e.Job) == nil; plain &&
			(err != nil || string(h.job) != e.Job || entry{uid: h.uid}.owner() != e.UID) {
			t.Errorf("head of %s: %s, %d, %v", again, h.job, h.uid, err)
		}
		e2, err := parseLine(again[:len(again)-1])
		must.NoError(t, err)
		again2, err := formatLine(e2)
		if err != nil || !bytes.Equal(again, again2) || e.Job != e2.Job || e.Key != e2.Key {
			t.Errorf("not stable: %s, then %s, %v", again, again2, err)
		}
	})
}

// FuzzFile feeds whole files to both readers, which have to agree.
func FuzzFile(f *testing.F) {
	a, _ := formatLine(Entry{Job: "1.a", Report: json.RawMessage("1")})
	b, _ := formatLine(Entry{Job: "2.a", Report: json.RawMessage(`"x"`)})
	f.Add(slices.Concat(a, b, a[:20]))
	f.Add(slices.Concat(a, []byte("\n\n"), b, a))
	f.Add(slices.Concat(make([]byte, block), a))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "f")
		must.NoError(t, os.WriteFile(path, content, 0o600))
		file, err := os.Open(path)
		must.NoError(t, err)
		defer file.Close()
		var forward, backward []string
		for line, err := range lines(file, 0) {
			must.NoError(t, err)
			if text := string(content[line.at : line.end-1]); text != string(line.text) {
				t.Errorf("%q lies at %d to %d, where %q is", line.text, line.at, line.end, text)
			}
			forward = append(forward, string(line.text))
		}
		for line, err := range linesBackward(file) {
			must.NoError(t, err)
			backward = append([]string{string(line)}, backward...)
		}
		must.Equal(t, "", forward, backward)
	})
}

func BenchmarkLedger(b *testing.B) {
	for _, jobs := range []int{0, 10_000} {
		l := fresh(b)
		r := map[string]string{"pad": strings.Repeat("x", 1200)}
		add(b, l, "0.srv", r)
		file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
		must.NoError(b, err)
		line, _ := os.ReadFile(l.path)
		file.Write(bytes.Repeat(line, jobs))
		file.Close()
		n := 0
		b.Run(fmt.Sprintf("append/jobs=%d", jobs), func(b *testing.B) {
			for b.Loop() {
				add(b, l, "1.srv", r)
			}
		})
		b.Run(fmt.Sprintf("append-once/jobs=%d", jobs), func(b *testing.B) {
			for b.Loop() {
				n++
				must.NoError(b, l.AppendOnce(context.Background(), "1.srv", fmt.Sprint(n), 1000, time.Now(), r))
			}
		})
		b.Run(fmt.Sprintf("last/jobs=%d", jobs), func(b *testing.B) {
			for b.Loop() {
				l.Last(b.Context(), "1.srv")
			}
		})
		b.Run(fmt.Sprintf("last-unknown/jobs=%d", jobs), func(b *testing.B) {
			for b.Loop() {
				l.Last(b.Context(), "9.srv")
			}
		})
	}
}
