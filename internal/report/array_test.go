package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// subjob is a subjob of an array whose subjobs ask for 2 cpus, 400mb and an hour.
func subjob(index int, took time.Duration, mem int64, change func(*jobstate.Record)) *Report {
	begin := begun.Add(time.Duration(index) * 7 * time.Second)
	return fromRecord(record(func(r *jobstate.Record) {
		r.Job.ID, r.Job.Name = fmt.Sprintf("12[%d].srv", index), "sweep"
		r.Job.ExecHost2 = fmt.Sprintf("n%d:15002/0*2", 1+index%3)
		r.Job.Schedselect = "1:ncpus=2:mem=400mb"
		r.Job.ResourceList = hostapi.Resources{"ncpus": "2", "mem": "400mb", "walltime": "01:00:00", "place": "free"}
		r.Launched, r.Ended = moment(begin), moment(begin.Add(took))
		h := other(2, 1.9*took.Seconds(), mem, 400<<20)
		h.OOMKills = ptr(int64(0))
		r.Hosts = map[string]*hostapi.HostUsage{fmt.Sprintf("n%d", 1+index%3): h}
		if change != nil {
			change(r)
		}
	}), begin.Add(took))
}

func outOfMemory(r *jobstate.Record) {
	for _, h := range r.Hosts {
		h.OOMKills, h.MemBytes = ptr(int64(1)), ptr(int64(400<<20))
	}
	r.ExitStatus = ptr(137)
}

// sweep is an array of 200 subjobs, of which 19 did not complete.
func sweep() []*Report {
	var list []*Report
	for i := range 200 {
		took := 20*time.Minute + time.Duration(i*i%41)*30*time.Second
		mem := int64(90+i*i%67) << 20
		switch {
		case i%17 == 3:
			list = append(list, subjob(i, took/3, mem, outOfMemory))
		case i > 60 && i < 66:
			list = append(list, subjob(i, time.Hour, mem, func(r *jobstate.Record) { r.ExitStatus = ptr(-29) }))
		case i == 120 || i == 140:
			list = append(list, subjob(i, time.Minute, mem, func(r *jobstate.Record) { r.ExitStatus = ptr(3) }))
		default:
			list = append(list, subjob(i, took, mem, nil))
		}
	}
	return list
}

func arrayText(t *testing.T, reports ...*Report) string {
	t.Helper()
	a, some := ArrayOf("12[]", slices.Values(reports))
	if !some {
		t.Fatal("no subjob")
	}
	var b bytes.Buffer
	must.NoError(t, a.WriteText(&b, 0))
	return b.String()
}

func TestArrayIsSummarizedOnAPage(t *testing.T) {
	list := sweep()
	again := subjob(4, time.Minute, 80<<20, nil) // an earlier run of one that was requeued
	again.End = known(begun)
	another := subjob(5, time.Minute, 1, nil)
	another.Job = "112[5].srv"
	text := arrayText(t, append(list, again, another)...)
	golden(t, "array.txt", []byte(text))
	a, _ := ArrayOf("12[].srv", slices.Values(list))
	var b bytes.Buffer
	must.NoError(t, HTML{}.WriteArray(&b, a))
	golden(t, filepath.Join("cases", "array.html"), b.Bytes())
	elements(t, b.String()) // is well formed
	for line := range strings.Lines(text) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if a, some := ArrayOf("13[]", slices.Values(list)); some {
		t.Errorf("subjobs of another array: %v", a.outcomes())
	}
}

// Reports that several nodes wrote of one array are joined by subjob.
func TestFilesOfSubjobsAreThoseOfAnArray(t *testing.T) {
	var parts []Part
	for _, r := range sweep()[:7] {
		parts = append(parts, Part{r, "n1.json"})
	}
	must.Equal(t, "array", "12[].srv", ArrayIn(parts))
	must.Equal(t, "one subjob", "", ArrayIn(parts[:1]))
	another := Part{fromRecord(record(nil), ended), "n2.json"}
	must.Equal(t, "a subjob and a job", "", ArrayIn(append(parts[:3:3], another)))
	joined, err := JoinEach(append(parts, parts[2]))
	must.NoError(t, err)
	must.Equal(t, "the summary", arrayText(t, sweep()[:7]...), arrayText(t, joined...))
}

func TestAdviceToArrays(t *testing.T) {
	each := func(n int, of func(i int) *Report) (list []*Report) {
		for i := range n {
			list = append(list, of(i))
		}
		return list
	}
	fits := func(i int) *Report { return subjob(i, 40*time.Minute, 300<<20, nil) }
	for _, tt := range []struct {
		name    string
		subjobs []*Report
		want    []string
	}{
		{"well asked", each(20, fits), nil},
		{"few", each(3, func(i int) *Report { return subjob(i, 2*time.Minute, 10<<20, nil) }), nil},
		{"much too much", each(20, func(i int) *Report { return subjob(i, 2*time.Minute, 10<<20, nil) }), []string{
			"try mem=64mb: the largest peak was 10mb of 400mb",
			"try walltime=00:05:00: the longest took 00:02:00 of 01:00:00; shorter ones may start sooner"}},
		{"one ran out of memory", append(each(20, fits), subjob(20, time.Minute, 1, outOfMemory)),
			[]string{"try mem=600mb or more: 1 of 21 subjobs ran out of memory; the others needed at most 300mb"}},
		{"one was too slow", append(each(20, fits), subjob(20, time.Hour, 300<<20, func(r *jobstate.Record) {
			r.ExitStatus = ptr(-29)
		})), []string{"try walltime=01:30:00: 1 of 21 subjobs took longer than 01:00:00"}},
		{"short", each(20, func(i int) *Report { return subjob(i, 20*time.Second, 300<<20, nil) }), []string{
			"try walltime=00:05:00: the longest took 20.0 s of 01:00:00; shorter ones may start sooner",
			"half of the subjobs took at most 20.0 s: let one do the work of several, since PBS needs seconds to " +
				"start each",
		}},
		{"one cpu each", each(20, func(i int) *Report {
			return subjob(i, 40*time.Minute, 300<<20, func(r *jobstate.Record) {
				for _, h := range r.Hosts {
					h.CPUTSeconds = ptr(2400.0)
				}
			})
		}), []string{"try ncpus=1: 20 of 20 subjobs: one of 2 cpus was used, as by a program that is not parallel"}},
		{"the site's", each(20, func(i int) *Report {
			r := fits(i)
			r.Advice = append(r.Advice, Advice{Text: "Read more.", Link: "https://hpc.example/x", Site: true})
			return r
		}), []string{"20 of 20 subjobs: Read more. https://hpc.example/x"}},
	} {
		a, _ := ArrayOf("12[]", slices.Values(tt.subjobs))
		must.Equal(t, tt.name, tt.want, texts(a.advice()))
	}
}

func BenchmarkArray(b *testing.B) {
	list := sweep()
	for b.Loop() {
		a, _ := ArrayOf("12[]", slices.Values(list))
		var text bytes.Buffer
		must.NoError(b, a.WriteText(&text, 80))
	}
}
