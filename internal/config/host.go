package config

import "github.com/sirupsen/logrus"

// Host configures the host process.
type Host struct {
	Enabled  bool     `toml:"enabled" json:"enabled" comment:"false: jobs of this host are left alone, and PBS is told nothing of it: none of the hooks that come with hookhost runs here."`
	Node     string   `toml:"node" json:"node" comment:"This host's name in exec_vnode; empty: the host name up to the first dot."`
	LogLevel string   `toml:"log_level" json:"log_level" comment:"error, warning, info or debug."`
	Start    Duration `toml:"start_timeout" json:"start_timeout" comment:"How long a hook's program may take to start."`
	// AllowUnsafeHooks is a switch for trials: see the comment that config show prints.
	AllowUnsafeHooks bool `toml:"allow_unsafe_hooks" json:"allow_unsafe_hooks" comment:"Run hook programs from folders that others than root can write to. For trials only."`
}

// Level returns the log level.
func (h Host) Level() logrus.Level {
	l, err := logrus.ParseLevel(h.LogLevel)
	if err != nil {
		return logrus.InfoLevel // check has refused anything else
	}
	return l
}
