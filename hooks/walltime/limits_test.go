package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// testPolicy returns a node's default configuration, but without signals.
func testPolicy(edit func(*config.Walltime)) *policy {
	p, err := newPolicy(nil)
	if err != nil {
		panic(err)
	}
	p.Walltime.Signals, p.warnings = nil, nil
	if edit != nil {
		edit(&p.Walltime)
	}
	for _, text := range p.Walltime.Signals {
		w, err := config.ParseWarning(text)
		if err != nil {
			panic(err)
		}
		p.warnings = append(p.warnings, w)
	}
	return p
}

const seconds = config.Duration(time.Second)

func TestLimitsFollowRequestAndPolicy(t *testing.T) {
	usr1 := func(before int, shell bool) config.Warning {
		return config.Warning{Before: time.Duration(before) * time.Second, Signal: unix.SIGUSR1, Shell: shell}
	}
	line := func(before int) config.Warning { return config.Warning{Before: time.Duration(before) * time.Second} }
	s := time.Second
	for _, tt := range []struct {
		name string
		job  hostapi.Resources
		node func(*config.Walltime)
		by   ender
		want limits
		told string
		bad  string
	}{
		{name: "nothing asked"},
		{name: "walltime", job: hostapi.Resources{"walltime": "00:10:00", "ncpus": "1"},
			want: limits{Walltime: 600 * s, End: 600 * s}},
		{name: "seconds", job: hostapi.Resources{"walltime": "3"}, want: limits{Walltime: 3 * s, End: 3 * s}},
		{name: "overtime", job: hostapi.Resources{"walltime": "60"},
			node: func(w *config.Walltime) { w.Overtime = 10 * seconds }, want: limits{Walltime: 60 * s, End: 70 * s}},
		{name: "pbs_mom", job: hostapi.Resources{"walltime": "60"}, by: pbsMoM,
			want: limits{Walltime: 60 * s, MoM: 60 * s, End: 360 * s}},
		{name: "pbs_mom, on a sister host", job: hostapi.Resources{"walltime": "60"}, by: pbsSister,
			want: limits{Walltime: 60 * s}},
		{name: "which ends jobs too", job: hostapi.Resources{"walltime": "60"}, by: pbsSister,
			node: func(w *config.Walltime) { w.MoMSisters = true }, want: limits{Walltime: 60 * s, End: 360 * s}},
		{name: "a sister host's maximum", job: hostapi.Resources{"walltime": "60"}, by: pbsSister,
			node: func(w *config.Walltime) { w.Maximum = 50 * seconds }, want: limits{Walltime: 50 * s, End: 50 * s},
			told: "=>> PBS: walltime: 00:01:00 was asked for, but no job of this node runs longer than 00:00:50"},
		{name: "the node's maximum alone", node: func(w *config.Walltime) {
			w.Maximum, w.Overtime = 60*seconds, 10*seconds
		}, want: limits{Walltime: 60 * s, End: 60 * s}},
		{name: "the node's maximum cuts", job: hostapi.Resources{"walltime": "01:00:00"},
			node: func(w *config.Walltime) { w.Maximum = 60 * seconds }, want: limits{Walltime: 60 * s, End: 60 * s},
			told: "=>> PBS: walltime: 01:00:00 was asked for, but no job of this node runs longer than 00:01:00"},
		{name: "and does not", job: hostapi.Resources{"walltime": "50"},
			node: func(w *config.Walltime) { w.Maximum = 60 * seconds }, want: limits{Walltime: 50 * s, End: 50 * s}},
		{name: "it cuts overtime", job: hostapi.Resources{"walltime": "55"},
			node: func(w *config.Walltime) { w.Maximum, w.Overtime = 60*seconds, 10*seconds },
			want: limits{Walltime: 55 * s, End: 60 * s}},
		{name: "and pbs_mom's margin", job: hostapi.Resources{"walltime": "100"}, by: pbsMoM,
			node: func(w *config.Walltime) { w.Maximum = 60 * seconds },
			want: limits{Walltime: 60 * s, MoM: 100 * s, End: 60 * s},
			told: "=>> PBS: walltime: 00:01:40 was asked for, but no job of this node runs longer than 00:01:00"},
		{name: "cput and soft_walltime", job: hostapi.Resources{"cput": "100", "soft_walltime": "20"},
			want: limits{CPUT: 100 * s, Soft: 20 * s}},
		{name: "cput is pbs_mom's", job: hostapi.Resources{"cput": "100", "soft_walltime": "20"}, by: pbsMoM,
			want: limits{Soft: 20 * s}},
		{name: "also on a sister host", job: hostapi.Resources{"cput": "100"}, by: pbsSister},
		{name: "shrink to fit, shrunk", job: hostapi.Resources{"walltime": "30", "min_walltime": "20",
			"max_walltime": "40"}, want: limits{Walltime: 30 * s, End: 30 * s}},
		{name: "shrink to fit, as asked", job: hostapi.Resources{"min_walltime": "20", "max_walltime": "40"},
			want: limits{Walltime: 40 * s, End: 40 * s}},
		{name: "min_walltime alone", job: hostapi.Resources{"min_walltime": "20"}},
		{name: "min above max", job: hostapi.Resources{"min_walltime": "50", "max_walltime": "40"},
			bad: "min_walltime 50 is above max_walltime 40"},
		{name: "walltime below min", job: hostapi.Resources{"walltime": "10", "min_walltime": "20"},
			bad: "walltime 10 is below min_walltime 20"},
		{name: "no time at all", job: hostapi.Resources{"walltime": "0"}, bad: "walltime=0: want more than 0"},
		{name: "no duration", job: hostapi.Resources{"cput": "1h"}, bad: "cput: duration"},
		{name: "ages", job: hostapi.Resources{"walltime": "2000000:00:00"}, by: pbsMoM,
			want: limits{Walltime: longest * s, MoM: longest * s, End: longest*s + 5*time.Minute}},

		{name: "the job's signals", job: hostapi.Resources{"walltime": "600", "walltime_signal": "USR1@60+B:USR1@300"},
			want: limits{Walltime: 600 * s, End: 600 * s,
				Warnings: []config.Warning{usr1(300, true), usr1(60, false)}}},
		{name: "real-time signals", job: hostapi.Resources{"walltime": "600",
			"walltime_signal": "RTMIN@60+B:rtmin+3@50+RTMAX-1@40"}, want: limits{Walltime: 600 * s, End: 600 * s,
			Warnings: []config.Warning{{Before: 60 * s, Signal: 34}, {Before: 50 * s, Signal: 37, Shell: true},
				{Before: 40 * s, Signal: 63}}}},
		{name: "in place of the node's", job: hostapi.Resources{"walltime": "600", "walltime_signal": "USR1@60"},
			node: func(w *config.Walltime) { w.Signals = []string{"@300"} },
			want: limits{Walltime: 600 * s, End: 600 * s, Warnings: []config.Warning{usr1(60, false)}}},
		{name: "the node's", job: hostapi.Resources{"walltime": "400"},
			node: func(w *config.Walltime) { w.Signals = []string{"@30", "@400", "@500", "@300"} },
			want: limits{Walltime: 400 * s, End: 400 * s, Warnings: []config.Warning{line(300), line(30)}}},
		{name: "the node's without a limit", node: func(w *config.Walltime) { w.Signals = []string{"@30"} }},
		{name: "before the node's maximum", job: hostapi.Resources{"walltime_signal": "@10"},
			node: func(w *config.Walltime) { w.Maximum = 60 * seconds },
			want: limits{Walltime: 60 * s, End: 60 * s, Warnings: []config.Warning{line(10)}}},
		{name: "not before the node's maximum", job: hostapi.Resources{"walltime_signal": "USR1@60"},
			node: func(w *config.Walltime) { w.Maximum = 60 * seconds },
			want: limits{Walltime: 60 * s, End: 60 * s},
			told: "=>> PBS: walltime: there will be no warning USR1@60, as the job has 00:01:00 in all"},
		{name: "not before the end", job: hostapi.Resources{"walltime": "60", "walltime_signal": "USR1@60"},
			bad: "walltime_signal: USR1@60 is not before the end of a walltime of 00:01:00"},
		{name: "without any limit", job: hostapi.Resources{"walltime_signal": "USR1@60", "cput": "100"},
			bad: "walltime_signal: USR1@60: the job has no walltime"},
		{name: "an unknown signal", job: hostapi.Resources{"walltime": "600", "walltime_signal": "USR1@60+FOO@3"},
			bad: `walltime_signal: "FOO@3": "FOO" is not a signal`},
		{name: "an empty signal", job: hostapi.Resources{"walltime": "600", "walltime_signal": ""},
			bad: `walltime_signal: "": want`},
		{name: "too many", job: hostapi.Resources{"walltime": "600",
			"walltime_signal": strings.Repeat("@1+", 16) + "@2"}, bad: "walltime_signal: 17 signals: want 16 at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, told, err := testPolicy(tt.node).newLimits(tt.job, tt.by)
			if tt.bad != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.bad) {
					t.Errorf("%v, want %s", err, tt.bad)
				}
				return
			}
			must.NoError(t, err)
			if want := askedFor(tt.job); !cmp.Equal(got.Asked, want) {
				t.Errorf("asked %v, want %v", got.Asked, want)
			}
			got.Asked = nil
			must.Equal(t, "limits", tt.want, got)
			if text := strings.Join(told, "\n"); text != tt.told {
				t.Errorf("told %q, want %q", text, tt.told)
			}
		})
	}
}

// An accepted value results in warnings in order, each before the end. No value makes the parser
// panic.
func FuzzLimits(f *testing.F) {
	f.Add("600", "USR1@300+B:INT@60+@5")
	f.Add("1", "@1")
	f.Add("", "++")
	f.Add("99999999999:0:0", "64@2147483648")
	p := testPolicy(func(w *config.Walltime) { w.Maximum, w.Overtime = 100*seconds, 10*seconds })
	f.Fuzz(func(t *testing.T, wall, signal string) {
		for _, p := range []*policy{p, testPolicy(nil)} {
			l, _, err := p.newLimits(hostapi.Resources{"walltime": wall, "walltime_signal": signal}, pbsMoM)
			if err != nil {
				continue
			}
			last := l.Walltime
			for _, w := range l.Warnings {
				if w.Before > last || w.Before >= l.Walltime || w.Before < time.Second {
					t.Errorf("%q, %q: %+v", wall, signal, l)
				}
				last = w.Before
			}
			if l.End < l.Walltime || l.Walltime <= 0 || l.next(progress{}) <= 0 {
				t.Errorf("%q, %q: %+v", wall, signal, l)
			}
		}
	})
}
