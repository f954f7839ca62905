package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
)

// Where things are unless flags or the environment say otherwise.
const (
	defaultState  = "/var/lib/hookhost"
	defaultSocket = "/run/hookhost/hookhost.sock" // cmd/pbs-attach has it too
)

// cli is what all commands share: where things are, from flags first and the environment second.
type cli struct {
	config, state, socket string
	named                 bool   // somebody said which configuration file
	called                string // the name that the program was called by
	umask                 int    // of run's caller, which is the job's
}

func (c *cli) flags(root *cobra.Command) {
	env := func(name, otherwise string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	f := root.PersistentFlags()
	f.StringVar(&c.config, "config", env("HOOKHOST_CONFIG", config.Path), "configuration file")
	f.StringVar(&c.state, "state", env("HOOKHOST_STATE", defaultState), "state directory")
	f.StringVar(&c.socket, "socket", env("HOOKHOST_SOCKET", defaultSocket), "socket of the daemon")
	// Hooks run elsewhere, and the daemon may outlive its folder: paths mean what they meant to the caller.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		c.named = cmd.Flags().Changed("config") || os.Getenv("HOOKHOST_CONFIG") != ""
		for _, p := range []*string{&c.config, &c.state, &c.socket} {
			abs, err := filepath.Abs(*p)
			if err != nil {
				return misuse(err)
			}
			*p = abs
		}
		return nil
	}
}

// load reads the configuration. The file that nobody named may be absent, and is the defaults then. To others than root a named
// one may be, too: what they may do the daemon does for them, by its own.
func (c *cli) load() (*config.File, error) {
	s, err := c.loadSettings()
	return s.file, err
}

// loadSettings is load, with what the configuration was made of.
func (c *cli) loadSettings() (settings, error) { return c.settings(c.named && os.Geteuid() == 0) }

// here is what the conditions of a configuration file are resolved by.
func here(path string) (config.Here, error) {
	text, _ := os.ReadFile(path) // one that cannot be read fails when it is loaded
	pbs := config.OpenPBSOf(text)
	return hereWith(&pbs)
}

// hereWith is here where PBS is known.
func hereWith(pbs *config.OpenPBS) (config.Here, error) {
	name, err := hostName()
	if err != nil {
		return config.Here{}, err
	}
	vntype, err := readVntype(pbs)
	return config.Here{Host: name, Vntype: vntype.name}, err
}

// hooksDir holds the registered hooks, beside the configuration.
func (c *cli) hooksDir() string { return filepath.Join(filepath.Dir(c.config), "hooks.d") }

// programDir holds the programs that `hook import` copied.
func (c *cli) programDir() string { return filepath.Join(c.state, "hooks") }

// nodeName is this host's name in exec_vnode: the host name up to the first dot, as MoM has it by default.
func nodeName(f *config.File) (string, error) {
	if f.Host.Node != "" {
		return f.Host.Node, nil
	}
	return hostName()
}

// hostName is the host name up to the first dot.
func hostName() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	name, _, _ = strings.Cut(name, ".")
	return name, nil
}

// newLog makes the log of this process, on standard error.
func newLog(f *config.File) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(stderr)
	log.SetLevel(f.Host.Level())
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	return log
}
