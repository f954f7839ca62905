package sister

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

func TestDebts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "debts")
	if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	d := OpenDebts(dir)
	if list, err := d.List(); err != nil || list != nil {
		t.Errorf("none: %v, %v", list, err)
	}
	other := strings.Repeat("f", 32)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := []Debt{
		{Host: "n2", Job: "1.srv", Run: run32, Event: hostapi.EventEnd, Since: at},
		{Host: "n2", Job: "1.srv", Run: other, Event: hostapi.EventAbort, Since: at},
		{Host: "n2", Job: "2[3].srv", Run: run32, Event: hostapi.EventEnd, Since: at},
		{Host: "n3.cluster", Job: "1.srv", Run: run32, Event: hostapi.EventAbort, Since: at},
	}
	for _, debt := range want {
		if err := d.Add(debt); err != nil {
			t.Fatal(err)
		}
	}
	// They are there for the next process, and nothing else is.
	for _, name := range []string{"n2/.new-1", "n2/x", "stray", "n2/1.srv@short"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = OpenDebts(dir)
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A later debt takes the place of the earlier one, which then cannot be paid any more.
	later := want[1]
	later.Event, later.Since = hostapi.EventEnd, at.Add(time.Hour)
	if err := d.Add(later); err != nil {
		t.Fatal(err)
	}
	for _, debt := range want {
		for range 2 { // idempotent
			if err := d.Paid(debt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if list, err := d.List(); err != nil || !cmp.Equal(list, []Debt{later}) {
		t.Errorf("left: %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "n3.cluster")); err == nil {
		t.Error("n3.cluster's folder is left")
	}
	// A damaged file owes what its name says: the end.
	if err := os.WriteFile(filepath.Join(dir, "n2", "1.srv@"+other), []byte(`{"job":"7.srv`), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(); err != nil || len(list) != 1 || list[0].Job != "1.srv" || list[0].Run != other || list[0].Event != hostapi.EventEnd {
		t.Errorf("damaged: %v, %v", list, err)
	} else if err := d.Paid(list[0]); err != nil {
		t.Error(err)
	}
}

func TestDebtsRefuse(t *testing.T) {
	dir := t.TempDir()
	d := OpenDebts(filepath.Join(dir, "debts"))
	good := Debt{Host: "n2", Job: "1.srv", Run: run32, Event: hostapi.EventEnd}
	for name, spoil := range map[string]func(*Debt){
		"no host": func(d *Debt) { d.Host = "" }, "a path for a host": func(d *Debt) { d.Host = "../n2" }, "up": func(d *Debt) { d.Host = ".." },
		"a path for a job": func(d *Debt) { d.Job = "../1" }, "a path for a run": func(d *Debt) { d.Run = "../" + run32[3:] }, "no run": func(d *Debt) { d.Run = "" },
		"another event": func(d *Debt) { d.Event = hostapi.EventBegin },
	} {
		debt := good
		spoil(&debt)
		if err := d.Add(debt); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "debts")); err == nil {
		t.Error("something was written")
	}
}

func TestDebtsAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "debts")
	d := OpenDebts(dir)
	var all sync.WaitGroup
	for i, host := range slices.Concat(names(20), names(20)) {
		d := d
		if i%2 == 1 {
			d = OpenDebts(dir) // another process
		}
		all.Go(func() {
			debt := Debt{Host: host, Job: "1.srv", Run: run32, Event: hostapi.EventEnd, Since: time.Unix(1, 0)}
			for range 5 {
				if err := d.Add(debt); err != nil {
					t.Error(err)
				}
				if _, err := d.List(); err != nil {
					t.Error(err)
				}
				if err := d.Paid(debt); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if list, err := d.List(); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
