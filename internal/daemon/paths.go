package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/reports"
	"github.com/hookhost/hookhost/internal/settings"
)

// Paths holds the paths of a daemon's files.
type Paths struct {
	Config  string // the node's own configuration, which may not exist
	State   string // the directory for everything that outlives a boot
	Socket  string
	Libexec string // the directory of files installed with hookhost
	Must    bool   // Config must exist
}

// Source returns where the configuration is read from.
func (p Paths) Source() settings.Source { return settings.Source{File: p.Config, State: p.State} }

// OpenReports returns the reports of finished jobs. A report that cannot be written waits beside
// the socket. Readers need neither bounds nor failed: both may be nil.
func (p Paths) OpenReports(bounds func() reports.Bounds, failed func(error)) *reports.Store {
	return reports.Open(filepath.Join(p.State, "reports"), p.beside("reports"), bounds, failed)
}

// Aux returns the directory of node files of jobs that `run` begins. It is beside the socket.
func (p Paths) Aux() string { return p.beside("aux") }

// LoginEnv returns the file with the variables of a login: see internal/pam.
func (p Paths) LoginEnv() string { return p.beside("pam.env") }

// beside returns the path of something that, like jobs, does not outlive the boot.
func (p Paths) beside(name string) string { return filepath.Join(filepath.Dir(p.Socket), name) }

// Namespaces returns the directory with the mount namespaces of jobs, each under its job's id.
func (p Paths) Namespaces() string { return p.beside("ns") }

// hasPrivate reports whether there are files of hook private: directories of jobs, or users to be
// cleaned.
func (p Paths) hasPrivate() bool {
	for _, dir := range []string{p.beside("tmp"), p.beside("runtime"), p.beside("users"), p.Namespaces()} {
		if files, err := os.ReadDir(dir); err == nil && len(files) > 0 {
			return true
		}
	}
	return false
}

// records returns the directory of live jobs of a prefix. Only the holder of the prefix's lock
// writes there.
func (p Paths) records(prefix string) string { return filepath.Join(p.beside("jobs"), prefix) }

// recorded counts the recorded jobs of a prefix.
func (p Paths) recorded(prefix string) (int, error) { return jobstate.Count(p.records(prefix)) }

// Find returns the path of a file that comes with hookhost. It is beside this executable after a
// build, or in Libexec after an installation. If there is none, Find returns the first of the two
// paths.
func (p Paths) Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	places := []string{filepath.Join(filepath.Dir(self), name), filepath.Join(p.Libexec, name)}
	for _, place := range places {
		if _, err := os.Stat(place); !errors.Is(err, fs.ErrNotExist) {
			return place, nil
		}
	}
	return places[0], nil
}

// remsh returns the path of hookhost-remsh, which some launchers need as a separate program. It
// returns "" if that program is not beside the executable.
func remsh() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), "hookhost-remsh")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
