package config

import (
	"fmt"
	"time"
)

// Walltime configures hook walltime. Its zero value is not a configuration: start from Default.
type Walltime struct {
	Enabled bool     `toml:"enabled" json:"enabled"`
	Maximum Duration `toml:"maximum" json:"maximum"`
	// Overtime never extends beyond Maximum.
	Overtime Duration `toml:"overtime" json:"overtime"`
	Grace    Duration `toml:"grace" json:"grace"`
	// Signals are entries for ParseWarning.
	Signals       []string `toml:"signals" json:"signals"`
	CoreDumpGrace Duration `toml:"core_dump_grace" json:"core_dump_grace"`
	KillTimeout   Duration `toml:"kill_timeout" json:"kill_timeout"`
	MoMMargin     Duration `toml:"mom_margin" json:"mom_margin"`
	MoMSisters    bool     `toml:"mom_sisters" json:"mom_sisters"`
}

// Limit returns how long a job that requests asked may run, without overtime. 0 means that there is
// no request, or no limit.
func (w Walltime) Limit(asked time.Duration) time.Duration {
	most := time.Duration(w.Maximum)
	if w.Enabled && most > 0 && (asked == 0 || asked > most) {
		return most
	}
	return asked
}

// check returns an error for the first invalid value, with its key.
func (w Walltime) check() error {
	const day = 24 * time.Hour
	maximum := time.Duration(w.Maximum)
	err := firstBroken(
		between("walltime.maximum", w.Maximum, 0, 10*366*day),
		rule{"walltime.maximum", maximum, maximum == 0 || maximum >= time.Second, "0s for none, or 1s or more"},
		between("walltime.overtime", w.Overtime, 0, 366*day),
		between("walltime.grace", w.Grace, 0, day),
		between("walltime.core_dump_grace", w.CoreDumpGrace, 0, day),
		between("walltime.kill_timeout", w.KillTimeout, time.Second, day),
		between("walltime.mom_margin", w.MoMMargin, 0, day),
	)
	if err != nil {
		return err
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
