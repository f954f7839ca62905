package config

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWalltimeDefaults(t *testing.T) {
	if err := Default().Walltime.check(); err != nil {
		t.Error(err)
	}
}

func TestWalltimeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Walltime)
		want string
	}{
		{"a maximum of nothing", func(w *Walltime) { w.Maximum = Duration(time.Millisecond) },
			"walltime.maximum = 1ms: want 0s for none, or 1s or more"},
		{"no kill timeout", func(w *Walltime) { w.KillTimeout = 0 }, "walltime.kill_timeout = 0s: want 1s to 24h0m0s"},
		{"a long grace", func(w *Walltime) { w.Grace = Duration(25 * time.Hour) },
			"walltime.grace = 25h0m0s: want 0s to 24h0m0s"},
		{"negative", func(w *Walltime) { w.MoMMargin = -1 }, "walltime.mom_margin = -1ns"},
		{"a signal", func(w *Walltime) { w.Signals = []string{"@300", "KILL@3"} },
			`walltime.signals: "KILL@3": SIGKILL is no warning`},
		{"many signals", func(w *Walltime) { w.Signals = make([]string, MaxWarnings+1) },
			"walltime.signals: 17 entries: want 16 at most"},
	} {
		w := Default().Walltime
		tt.edit(&w)
		if err := w.check(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestParseWarning(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Warning
		bad  string
	}{
		{text: "USR1@300", want: Warning{Before: 5 * time.Minute, Signal: unix.SIGUSR1}},
		{text: "SIGUSR1@300", want: Warning{Before: 5 * time.Minute, Signal: unix.SIGUSR1}},
		{text: "sigint@1", want: Warning{Before: time.Second, Signal: unix.SIGINT}},
		{text: "B:10@60", want: Warning{Before: time.Minute, Signal: unix.SIGUSR1, Shell: true}},
		{text: "64@5", want: Warning{Before: 5 * time.Second, Signal: 64}},
		{text: "RTMIN@5", want: Warning{Before: 5 * time.Second, Signal: 34}},
		{text: "B:sigrtmin+3@5", want: Warning{Before: 5 * time.Second, Signal: 37, Shell: true}},
		{text: "RTMAX-1@5", want: Warning{Before: 5 * time.Second, Signal: 63}},
		{text: "RTMIN+31@5", bad: `"RTMIN+31" is not a signal`},
		{text: "RTMAX-31@5", bad: `"RTMAX-31" is not a signal`},
		{text: "RTMIN-1@5", bad: `"RTMIN-1" is not a signal`},
		{text: "RTMIN3@5", bad: `"RTMIN3" is not a signal`},
		{text: "RTMIN+@5", bad: `"RTMIN+" is not a signal`},
		{text: "@300", want: Warning{Before: 5 * time.Minute}},
		{text: "CONT@07", want: Warning{Before: 7 * time.Second, Signal: unix.SIGCONT}},
		{text: "", bad: `"": want [B:]SIG@SECONDS, such as USR1@300`},
		{text: "USR1", bad: "want [B:]SIG@SECONDS"},
		{text: "B:@300", bad: "B: without a signal"},
		{text: "USR3@300", bad: `"USR3" is not a signal`},
		{text: "SIG@300", bad: `"SIG" is not a signal`},
		{text: "SIGSIGINT@300", bad: "is not a signal"},
		{text: "0@300", bad: `"0" is not a signal`},
		{text: "65@300", bad: `"65" is not a signal`},
		{text: "-1@300", bad: `"-1" is not a signal`},
		{text: "257@300", bad: `"257" is not a signal`},
		{text: "KILL@300", bad: "SIGKILL is no warning: no program can catch it"},
		{text: "19@300", bad: "SIGSTOP is no warning"},
		{text: "33@300", bad: "signal 33 belongs to the C library"},
		{text: "B:B:USR1@3", bad: `"B:USR1" is not a signal`},
		{text: "USR1@", bad: `"": want a number of seconds before the end, 1 or more`},
		{text: "USR1@0", bad: "1 or more"},
		{text: "USR1@1.5", bad: `"1.5": want a number`},
		{text: "USR1@-5", bad: "1 or more"},
		{text: "USR1@00:05:00", bad: "1 or more"},
		{text: "USR1@99999999999", bad: "1 or more"},
		{text: "USR1@5@6", bad: "1 or more"},
		{text: " USR1@5", bad: "is not a signal"},
	} {
		got, err := ParseWarning(tt.text)
		if tt.bad == "" && (err != nil || got != tt.want) || tt.bad != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.bad) || got != Warning{}) {
			t.Errorf("%q: %+v, %v, want %+v, %s", tt.text, got, err, tt.want, tt.bad)
		}
	}
}

// A warning that was parsed reads the same when it is written down, and nothing else is let
// through.
func FuzzParseWarning(f *testing.F) {
	for _, text := range []string{"USR1@300", "B:SIGINT@1", "@5", "36@10", "B:@1", "KILL@1", "@", "", "9@1", "x@y@z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWarning(text)
		if err != nil {
			if w != (Warning{}) {
				t.Errorf("%q: %+v with %v", text, w, err)
			}
			return
		}
		if w.Signal == unix.SIGKILL || w.Signal == unix.SIGSTOP || w.Signal < 0 || w.Signal > 64 ||
			w.Before < time.Second || w.Before%time.Second != 0 || w.Shell && w.Signal == 0 {
			t.Errorf("%q: %+v", text, w)
		}
		if again, err := ParseWarning(w.String()); err != nil || again != w {
			t.Errorf("%q: %+v, written %s: %+v, %v", text, w, w, again, err)
		}
	})
}
