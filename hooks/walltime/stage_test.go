package main

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func TestStepDecidesWhatIsDue(t *testing.T) {
	s := time.Second
	usr1 := config.Warning{Before: 300 * s, Signal: unix.SIGUSR1}
	shell := config.Warning{Before: 60 * s, Signal: unix.SIGINT, Shell: true}
	line := config.Warning{Before: 60 * s}
	hour := limits{Walltime: 3600 * s, End: 3600 * s}
	warned := hour
	warned.Warnings = []config.Warning{usr1, line, shell}
	used := func(d time.Duration) *time.Duration { return &d }
	const up = 24 * time.Hour
	text := "=>> PBS: job killed: walltime 3600 exceeded limit 3600"
	note := "ended by hookhost: walltime 3600 exceeded limit 3600: "
	reason := "walltime 3600 exceeded limit 3600"
	dead := progress{Stage: terminated, Reason: reason, Terminated: 3600 * s, Next: 3602 * s}
	for _, tt := range []struct {
		name   string
		limits limits
		was    progress
		facts  facts
		want   progress
		orders orders
	}{
		{"no limit", limits{}, progress{}, facts{Elapsed: 5000 * s, Alive: 1}, progress{}, orders{}},
		{"nothing is due", hour, progress{Next: 3600 * s}, facts{Elapsed: 3599 * s, Alive: 1}, progress{Next: 3600 * s},
			orders{}},
		{"it is suspended", hour, progress{Next: 3600 * s}, facts{Elapsed: 3600 * s, Alive: 1, Suspended: true},
			progress{Next: 3601 * s}, orders{}},
		{"over, on the dot", hour, progress{Next: 3600 * s}, facts{Elapsed: 3600 * s, Alive: 1, Grace: 2 * s, Up: up},
			dead,
			orders{Do: terminate, Lines: []string{text}, Diag: "job killed: " + reason,
				Notes: []string{note + "SIGTERM"}}},
		{"over, without processes", hour, progress{Next: 3600 * s}, facts{Elapsed: 3600 * s, Grace: 2 * s},
			progress{Next: 3660 * s}, orders{}},
		{"over, long ago", hour, progress{Next: 3600 * s},
			facts{Elapsed: 3605*s + 500*time.Millisecond, Alive: 1, Grace: 2 * s, Up: 4 * s},
			progress{Stage: terminated, Reason: "walltime 3605 exceeded limit 3600",
				Terminated: 3605*s + 500*time.Millisecond, Next: 3607*s + 500*time.Millisecond},
			orders{Do: terminate, Lines: []string{"=>> PBS: job killed: walltime 3605 exceeded limit 3600"},
				Diag: "job killed: walltime 3605 exceeded limit 3600",
				Notes: []string{"ended by hookhost: walltime 3605 exceeded limit 3600: SIGTERM",
					"was ended 5.5 seconds later than was due, because hookhost did not run then, or did not look at " +
						"walltime"}}},
		{"over, for long, by somebody's load", hour, progress{Next: 3600 * s},
			facts{Elapsed: 3602 * s, Alive: 1, Grace: 2 * s, Up: 2 * s},
			progress{Stage: terminated, Reason: "walltime 3602 exceeded limit 3600", Terminated: 3602 * s,
				Next: 3604 * s},
			orders{Do: terminate, Lines: []string{"=>> PBS: job killed: walltime 3602 exceeded limit 3600"},
				Diag: "job killed: walltime 3602 exceeded limit 3600",
				Notes: []string{"ended by hookhost: walltime 3602 exceeded limit 3600: SIGTERM",
					"was ended 2.0 seconds later than was due, because the node was too busy"}}},
		{"no grace", hour, progress{Next: 3600 * s}, facts{Elapsed: 3600 * s, Alive: 1, Up: up},
			progress{Stage: terminated, Reason: reason, Terminated: 3600 * s, Next: 3600*s + 1},
			orders{Do: terminate, Lines: []string{text}, Diag: "job killed: " + reason,
				Notes: []string{note + "SIGTERM"}}},
		{"cput", limits{CPUT: 100 * s}, progress{Next: 50 * s},
			facts{Elapsed: 50 * s, Alive: 3, CPU: used(100 * s), CPUs: 2, Grace: 2 * s, Up: up},
			progress{Stage: terminated, Reason: "cput 100 exceeded limit 100", Terminated: 50 * s, Next: 52 * s},
			orders{Do: terminate, Lines: []string{"=>> PBS: job killed: cput 100 exceeded limit 100"},
				Diag:  "job killed: cput 100 exceeded limit 100",
				Notes: []string{"ended by hookhost: cput 100 exceeded limit 100: SIGTERM"}}},
		{"cput, long ago", limits{CPUT: 100 * s}, progress{Next: 50 * s},
			facts{Elapsed: 90 * s, Alive: 3, CPU: used(160 * s), CPUs: 2, Grace: 2 * s, Up: 10 * s},
			progress{Stage: terminated, Reason: "cput 160 exceeded limit 100", Terminated: 90 * s, Next: 92 * s},
			orders{Do: terminate, Lines: []string{"=>> PBS: job killed: cput 160 exceeded limit 100"},
				Diag: "job killed: cput 160 exceeded limit 100",
				Notes: []string{"ended by hookhost: cput 160 exceeded limit 100: SIGTERM",
					"was ended 30.0 seconds later than was due, because hookhost did not run then, or did not look " +
						"at walltime"}}},
		{"cput, looked at several times", limits{CPUT: 100 * s}, progress{Next: 50 * s},
			facts{Elapsed: 90 * s, Alive: 3, CPU: used(101 * s), CPUs: 2, Grace: 2 * s, Up: up},
			progress{Stage: terminated, Reason: "cput 101 exceeded limit 100", Terminated: 90 * s, Next: 92 * s},
			orders{Do: terminate, Lines: []string{"=>> PBS: job killed: cput 101 exceeded limit 100"},
				Diag:  "job killed: cput 101 exceeded limit 100",
				Notes: []string{"ended by hookhost: cput 101 exceeded limit 100: SIGTERM"}}},
		{"cput, not yet", limits{CPUT: 100 * s}, progress{Next: 50 * s},
			facts{Elapsed: 50 * s, Alive: 3, CPU: used(60 * s), CPUs: 2}, progress{Next: 70 * s}, orders{}},
		{"cput, unknown", limits{CPUT: 100 * s}, progress{Next: 50 * s}, facts{Elapsed: 50 * s, Alive: 3},
			progress{Next: 60 * s}, orders{}},
		{"cput, uncounted", limits{CPUT: 100 * s}, progress{Next: 50 * s},
			facts{Elapsed: 50 * s, Alive: 3, Uncounted: true}, progress{},
			orders{Notes: []string{"its limit of cput ends nothing, as nobody counts cpu time on this node"}}},
		{"soft_walltime", limits{Walltime: 3600 * s, End: 3600 * s, Soft: 100 * s}, progress{Next: 100 * s},
			facts{Elapsed: 100 * s, Alive: 1}, progress{SoftTold: true, Next: 3600 * s},
			orders{Notes: []string{"ran longer than its soft_walltime of 100 seconds, which ends nothing"}}},

		{"pbs_mom's end", limits{Walltime: 3600 * s, MoM: 3600 * s, End: 3900 * s}, progress{Next: 3600 * s},
			facts{Elapsed: 3600 * s, Alive: 1}, progress{Hastened: true, Next: 3900 * s}, orders{Hasten: true}},
		{"after pbs_mom's end", limits{Walltime: 3600 * s, MoM: 3600 * s, End: 3900 * s, CPUT: 9000 * s},
			progress{Hastened: true, Next: 3700 * s}, facts{Elapsed: 3700 * s, Alive: 1},
			progress{Hastened: true, Next: 3710 * s}, orders{}},
		{"before pbs_mom's end", limits{Walltime: 3600 * s, MoM: 3600 * s, End: 3900 * s, Warnings: warned.Warnings},
			progress{Warned: 1, Next: 3540 * s}, facts{Elapsed: 3540 * s, Alive: 1},
			progress{Warned: 3, Next: 3600 * s}, orders{Signals: []config.Warning{shell},
				Lines: []string{"=>> PBS: walltime: 00:01:00 left of 01:00:00"}}},

		{"a warning", warned, progress{Next: 3300 * s}, facts{Elapsed: 3300*s + 5*time.Millisecond, Alive: 1},
			progress{Warned: 1, Next: 3540 * s},
			orders{Signals: []config.Warning{usr1}, Lines: []string{"=>> PBS: walltime: 00:05:00 left of 01:00:00"}}},
		{"two at a time", warned, progress{Warned: 1, Next: 3540 * s}, facts{Elapsed: 3540 * s, Alive: 1},
			progress{Warned: 3, Next: 3600 * s},
			orders{Signals: []config.Warning{shell}, Lines: []string{"=>> PBS: walltime: 00:01:00 left of 01:00:00"}}},
		{"late", warned, progress{Next: 3300 * s}, facts{Elapsed: 3590 * s, Alive: 1},
			progress{Warned: 3, Next: 3600 * s},
			orders{Signals: []config.Warning{usr1, shell},
				Lines: []string{"=>> PBS: walltime: 00:00:10 left of 01:00:00"}}},
		{"too late", warned, progress{Next: 3300 * s}, facts{Elapsed: 3600 * s, Alive: 1, Grace: 2 * s, Up: up}, dead,
			orders{Do: terminate, Lines: []string{text}, Diag: "job killed: " + reason,
				Notes: []string{note + "SIGTERM"}}},
		{"in its overtime", limits{Walltime: 3600 * s, End: 3700 * s, Warnings: warned.Warnings},
			progress{Warned: 3, Next: 3600 * s}, facts{Elapsed: 3650 * s, Alive: 1},
			progress{Warned: 3, Next: 3700 * s}, orders{}},
		{"a warning in its overtime", limits{Walltime: 3600 * s, End: 3700 * s, Warnings: warned.Warnings},
			progress{Next: 3300 * s}, facts{Elapsed: 3650 * s, Alive: 1},
			progress{Warned: 3, Next: 3700 * s}, orders{Signals: []config.Warning{usr1, shell},
				Lines: []string{"=>> PBS: walltime: 00:00:00 left of 01:00:00"}}},

		{"gone after SIGTERM", hour, dead, facts{Elapsed: 3602 * s, Grace: 2 * s},
			progress{Stage: terminated, Reason: reason, Terminated: 3600 * s, Next: 3662 * s}, orders{}},
		{"a longer grace by now", hour, dead, facts{Elapsed: 3602 * s, Grace: 10 * s, Alive: 1},
			progress{Stage: terminated, Reason: reason, Terminated: 3600 * s, Next: 3610 * s}, orders{}},
		{"SIGKILL", hour, dead, facts{Elapsed: 3602 * s, Grace: 2 * s, Alive: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s, Tries: 1, Next: 3603 * s},
			orders{Do: kill, Notes: []string{note + "SIGKILL after a grace of 2s"}}},
		{"again, later", hour, progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s,
			Tries: 3, Next: 3609 * s}, facts{Elapsed: 3609 * s, Grace: 2 * s, Alive: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s, Tries: 4, Next: 3617 * s},
			orders{Do: kill}},
		{"not before", hour, progress{Stage: killing, Next: 3609 * s}, facts{Elapsed: 3608 * s, Alive: 1},
			progress{Stage: killing, Next: 3609 * s}, orders{}},
		{"up to the timeout", hour, progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s,
			Tries: 5, Next: 3633 * s}, facts{Elapsed: 3633 * s, Grace: 2 * s, Alive: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s, Tries: 6, Next: 3662 * s},
			orders{Do: kill}},
		{"unkillable", hour, progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s, Tries: 6,
			Next: 3662 * s}, facts{Elapsed: 3662 * s, Grace: 2 * s, Alive: 1},
			progress{Stage: unkillable, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s, Tries: 7,
				Next: 3722 * s}, orders{Do: kill, GiveUp: true}},
		{"still", hour, progress{Stage: unkillable, Terminated: 3600 * s, Killing: 3602 * s, Tries: 7, Next: 3722 * s},
			facts{Elapsed: 3722 * s, Grace: 2 * s, Alive: 1},
			progress{Stage: unkillable, Terminated: 3600 * s, Killing: 3602 * s, Tries: 8, Next: 3782 * s},
			orders{Do: kill}},
		{"no more", hour, progress{Stage: unkillable, Reason: reason, Terminated: 3600 * s, Killing: 3602 * s, Tries: 8,
			Next: 3782 * s}, facts{Elapsed: 3782 * s, Grace: 2 * s},
			progress{Stage: terminated, Reason: reason, Terminated: 3600 * s, Next: 3842 * s}, orders{}},

		{"a core dump", hour, dead, facts{Elapsed: 3602 * s, Grace: 2 * s, Alive: 2, Dumping: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s, Next: 3603 * s},
			orders{Do: killOthers, Notes: []string{"SIGKILL waits 30s at most for 1 of its processes to write a core " +
				"dump"}}},
		{"goes on", hour, progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s,
			Next: 3603 * s}, facts{Elapsed: 3631*s + 1, Grace: 2 * s, Alive: 2, Dumping: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s, Next: 3632 * s},
			orders{Do: killOthers}},
		{"too long", hour, progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s,
			Next: 3632 * s}, facts{Elapsed: 3632 * s, Grace: 2 * s, Alive: 1, Dumping: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s, Killing: 3632 * s,
				Tries: 1, Next: 3633 * s},
			orders{Do: kill, Notes: []string{note + "SIGKILL after a grace of 2s"}}},
		{"that is over", hour, progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s,
			Next: 3603 * s}, facts{Elapsed: 3603 * s, Grace: 2 * s, Alive: 1},
			progress{Stage: killing, Reason: reason, Terminated: 3600 * s, Spared: 3602 * s, Killing: 3603 * s,
				Tries: 1, Next: 3604 * s},
			orders{Do: kill, Notes: []string{note + "SIGKILL after a grace of 2s"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, o := testPolicy(nil).step(tt.limits, tt.was, tt.facts)
			must.Equal(t, "progress", tt.want, got)
			must.Equal(t, "orders", tt.orders, o)
		})
	}
}
