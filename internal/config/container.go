package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Container configures hook container.
type Container struct {
	Enabled bool     `toml:"enabled" json:"enabled"`
	Engine  string   `toml:"engine" json:"engine"`
	Program string   `toml:"program" json:"program"`
	Options []string `toml:"options" json:"options"`
	Binds   []string `toml:"binds" json:"binds"`
}

// The resources of container jobs: the image that a job requests, and the engine that a node has.
const (
	ContainerResource       = "container"
	ContainerEngineResource = "container_engine"
)

// The engines of [container], with the programs that run a container.
const (
	Apptainer    = "apptainer"
	Podman       = "podman"
	Enroot       = "enroot"
	Charliecloud = "charliecloud"
)

var enginePrograms = map[string]string{
	Apptainer: "apptainer", Podman: "podman", Enroot: "enroot", Charliecloud: "ch-run",
}

// engineDirs are where an engine's program is looked for. PATH of the daemon does not matter.
var engineDirs = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// EngineProgram returns the path of the engine's program. Without a configured one it is looked
// for, and EngineProgram fails if there is none. A configured path may be on a file server, so it
// is not examined.
func (c Container) EngineProgram() (string, error) {
	if c.Program != "" {
		return c.Program, nil
	}
	name := enginePrograms[c.Engine]
	for _, dir := range engineDirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in %s", name, strings.Join(engineDirs, ", "))
}

// Bind is an entry of [container] binds: a directory of the host, and where a job sees it. $NAME in
// them is a variable of the job.
type Bind struct {
	Source, Target string
	ReadOnly       bool
}

// bindPath matches one path of a bind. Engines separate fields by colons, commas and blanks.
var bindPath = regexp.MustCompile(`^(/|\$[A-Za-z_])([^:,$\s\x00-\x1f\x7f]|\$[A-Za-z_])*$`)

// ParseBind parses SRC, SRC:DST or SRC:DST:ro.
func ParseBind(text string) (Bind, error) {
	fields := strings.Split(text, ":")
	b := Bind{Source: fields[0], Target: fields[0]}
	if len(fields) > 1 {
		b.Target = fields[1]
	}
	b.ReadOnly = len(fields) == 3 && fields[2] == "ro"
	if !bindPath.MatchString(b.Source) || !bindPath.MatchString(b.Target) || len(fields) == 3 && !b.ReadOnly ||
		len(fields) > 3 {
		return Bind{}, fmt.Errorf("%q: want SRC, SRC:DST or SRC:DST:ro, absolute paths "+
			"without blanks and commas, in which $NAME is a variable", text)
	}
	return b, nil
}

// check returns an error for the first invalid value, with its key.
func (c Container) check() error {
	const engines = "apptainer, podman, enroot or charliecloud"
	err := firstBroken(
		oneOf("container.engine", c.Engine, engines, Apptainer, Podman, Enroot, Charliecloud),
		cleanPath("container.program", c.Program),
	)
	for _, option := range c.Options {
		if err == nil && (option == "" || strings.ContainsRune(option, 0)) {
			err = fmt.Errorf("container.options: %q is not an argument", option)
		}
	}
	for _, text := range c.Binds {
		b, bad := ParseBind(text)
		switch {
		case err != nil:
		case bad != nil:
			err = fmt.Errorf("container.binds: %w", bad)
		case b.ReadOnly && c.Engine == Charliecloud:
			err = fmt.Errorf("container.binds: %q: charliecloud has no read-only binds", text)
		}
	}
	return err
}
