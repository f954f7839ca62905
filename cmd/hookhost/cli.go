package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/daemon"
	"github.com/hookhost/hookhost/internal/settings"
)

// The default paths. Flags and the environment override them.
const (
	defaultState  = "/var/lib/hookhost"
	defaultSocket = "/run/hookhost/hookhost.sock" // cmd/pbs-attach has it too
)

// cli holds the data that all commands share: paths from flags or, second, from the environment.
type cli struct {
	daemon.Paths
	named  bool   // the configuration file was named explicitly
	called string // the name under which the program was called
}

func (c *cli) flags(root *cobra.Command) {
	c.Libexec = libexecDir
	env := func(name, otherwise string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	f := root.PersistentFlags()
	f.StringVar(&c.Config, "config", env("HOOKHOST_CONFIG", config.Path), "configuration `FILE`")
	f.StringVar(&c.State, "state", env("HOOKHOST_STATE", defaultState), "state `DIRECTORY`")
	f.StringVar(&c.Socket, "socket", env("HOOKHOST_SOCKET", defaultSocket), "`SOCKET` of the daemon")
	// Hooks run in other directories, and the daemon may outlive its own. So paths are made
	// absolute here.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		c.named = cmd.Flags().Changed("config") || os.Getenv("HOOKHOST_CONFIG") != ""
		c.Must = c.named && settings.IsRoot()
		for _, p := range []*string{&c.Config, &c.State, &c.Socket} {
			abs, err := filepath.Abs(*p)
			if err != nil {
				return misuse(err)
			}
			*p = abs
		}
		return nil
	}
}

// load reads the configuration. A missing file means the defaults, unless root named it.
func (c *cli) load() (*config.File, error) {
	s, err := c.loadSettings()
	return s.File, err
}

// loadSettings is load, and also returns the sources of the configuration.
func (c *cli) loadSettings() (settings.Settings, error) {
	return c.readSettings(c.Must)
}

// readSettings reads the configuration. A mistake in it is a misuse.
func (c *cli) readSettings(must bool) (settings.Settings, error) {
	s, err := c.Source().Read(must)
	if mistake := (settings.Mistake{}); errors.As(err, &mistake) {
		err = misuse(err)
	}
	return s, err
}

// openInput opens the file of that name, or standard input for "-".
func openInput(stdin io.Reader, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// openPBSOf returns the table [openpbs] of a configuration file. For a file that cannot be read it
// returns the defaults: load reports the error.
func openPBSOf(path string) config.OpenPBS {
	text, _ := os.ReadFile(path)
	return config.OpenPBSOf(text)
}

// hereFor returns the values for resolving the conditions of a configuration file.
func hereFor(path string) (config.Here, error) {
	pbs := openPBSOf(path)
	return settings.Here(&pbs)
}

// newLog returns the log of this process, which goes to standard error.
func newLog(f *config.File) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(stderr)
	log.SetLevel(f.Host.Level())
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	return log
}
