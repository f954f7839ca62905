package main

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/openpbs"
)

// FuzzAlarm finds the alarm in an input file of pbs_mom's. The daemon finds the same one, where it
// finds any.
func FuzzAlarm(f *testing.F) {
	const id, end = "pbs.event().job.id=1.a\n", "pbs.event().type=execjob_end\n"
	f.Add([]byte(id + end + "pbs.event().hook_name=h\npbs.event().alarm=30\n"))
	f.Add([]byte(id + "pbs.event().alarm=1\n" + end + "pbs.event().alarm=007\nx"))
	f.Fuzz(func(t *testing.T, in []byte) {
		alarm := alarmIn(in)
		if alarm < 0 || alarm > 1<<20*time.Second || alarm%time.Second != 0 {
			t.Errorf("%q: %v", in, alarm)
		}
		e, err := openpbs.Decode(in)
		if err == nil && e.Alarm > 0 && e.Alarm <= 1<<20*time.Second && alarm != e.Alarm {
			t.Errorf("%q: %v, the daemon has %v", in, alarm, e.Alarm)
		}
	})
}
