package config

import (
	"fmt"
	"time"
)

// Walltime configures hook walltime. Its zero value is not a configuration: start from DefaultWalltime.
type Walltime struct {
	Enabled bool     `toml:"enabled" json:"enabled" comment:"false: no job is warned or ended for walltime or cput."`
	Maximum Duration `toml:"maximum" json:"maximum" comment:"No job of this node runs longer, whatever it asked for. 0s: no maximum."`
	// Overtime is not given beyond Maximum.
	Overtime Duration `toml:"overtime" json:"overtime" comment:"How long a job may go on after its walltime."`
	Grace    Duration `toml:"grace" json:"grace" comment:"From SIGTERM to SIGKILL. A job's own kill_delay goes first."`
	// Signals are entries as ParseWarning takes them.
	Signals       []string `toml:"signals" json:"signals" comment:"Warnings before the end of a job that asks for none with walltime_signal: [B:]SIG@SECONDS. B: to the leading shell only, else to every process. @SECONDS: a line on standard error alone."`
	CoreDumpGrace Duration `toml:"core_dump_grace" json:"core_dump_grace" comment:"How long a process that dumps core is spared from SIGKILL."`
	KillTimeout   Duration `toml:"kill_timeout" json:"kill_timeout" comment:"How long SIGKILL is repeated before the job is called unkillable."`
	MoMMargin     Duration `toml:"mom_margin" json:"mom_margin" comment:"Under pbs_mom, which ends jobs at their walltime itself: how long after that hookhost does it. More than the time between two exechost_periodic, which tell of a walltime that qalter has changed."`
	MoMSisters    bool     `toml:"mom_sisters" json:"mom_sisters" comment:"Under pbs_mom, end jobs on sister hosts in the same way. They do not learn of a walltime that qalter has changed."`
}

// DefaultWalltime returns what holds where the file says nothing.
func DefaultWalltime() Walltime {
	return Walltime{Enabled: true, Grace: Duration(30 * time.Second), Signals: []string{"@300"}, CoreDumpGrace: Duration(30 * time.Second),
		KillTimeout: Duration(time.Minute), MoMMargin: Duration(5 * time.Minute)}
}

// check returns the first value that cannot be meant, by its key.
func (w Walltime) check() error {
	for _, d := range []struct {
		key       string
		value     Duration
		low, high time.Duration
	}{
		{"maximum", w.Maximum, 0, 10 * 366 * 24 * time.Hour},
		{"overtime", w.Overtime, 0, 366 * 24 * time.Hour},
		{"grace", w.Grace, 0, 24 * time.Hour},
		{"core_dump_grace", w.CoreDumpGrace, 0, 24 * time.Hour},
		{"kill_timeout", w.KillTimeout, time.Second, 24 * time.Hour},
		{"mom_margin", w.MoMMargin, 0, 24 * time.Hour},
	} {
		if v := time.Duration(d.value); v < d.low || v > d.high {
			return fmt.Errorf("walltime.%s = %v: want %v to %v", d.key, v, d.low, d.high)
		}
	}
	if m := time.Duration(w.Maximum); m > 0 && m < time.Second {
		return fmt.Errorf("walltime.maximum = %v: want 0s for none, or 1s or more", m)
	}
	if len(w.Signals) > MaxWarnings {
		return fmt.Errorf("walltime.signals: %d entries: want %d at most", len(w.Signals), MaxWarnings)
	}
	for _, text := range w.Signals {
		if _, err := ParseWarning(text); err != nil {
			return fmt.Errorf("walltime.signals: %w", err)
		}
	}
	return nil
}
