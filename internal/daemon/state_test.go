package daemon

import (
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// What is known of a host that hookhost leaves alone does not depend on doctor.
func TestStateOfThisHostIsWhatDoctorFound(t *testing.T) {
	log, _ := test.NewNullLogger()
	d := newDoctor(nil, nil, logrus.NewEntry(log))
	want := func(what string, enabled bool, want string, wantKnown bool) {
		t.Helper()
		if got, known := d.state(enabled); got != want || known != wantKnown {
			t.Errorf("%s: state %q, known %t, want %q, %t", what, got, known, want, wantKnown)
		}
	}
	want("not examined yet", true, "", false)
	want("left alone", false, "", true)
	d.note(true)
	want("examined", true, "ok", true)
	d.note(false)
	want("examined again", true, "degraded", true)
	want("left alone now", false, "", true)

	d.configured()
	want("with a new configuration", true, "", false)
	d.note(true) // an examination that began before
	want("with a new configuration still", true, "", false)
	<-d.wanted
	d.note(true)
	want("with a new configuration, examined", true, "ok", true)
}

func TestNodeIsExaminedUntilEveryHookCanWork(t *testing.T) {
	log, _ := test.NewNullLogger()
	d := newDoctor(nil, nil, logrus.NewEntry(log))
	for _, tt := range []struct {
		what     string
		verdicts []bool
		want     int
	}{
		{"nothing known", nil, 0}, {"degraded", []bool{false}, 1}, {"repaired", []bool{false, true}, 0},
	} {
		for _, ok := range tt.verdicts {
			d.note(ok)
		}
		d.retry()
		if got := len(d.wanted); got != tt.want {
			t.Errorf("%s: %d examinations, want %d", tt.what, got, tt.want)
		}
		for len(d.wanted) > 0 {
			<-d.wanted
		}
	}
}
