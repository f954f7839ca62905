package settings

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
)

// Sent is the configuration that PBS has sent to this node, which MoM stores beside the script.
type Sent struct {
	Path string // "" if there is none, or if this user cannot see it; the folder if it cannot be read
	Text []byte

	err error // why the text cannot be read
}

// ReadSent reads the file in which MoM stores the configuration, if root trusts it.
func ReadSent(path string) ([]byte, error) { return readTrusted(path, openpbs.MaxConfig) }

// readSent reads the configuration from the MoM that o names. A file that is empty, or longer than
// MoM writes at once, may be incomplete and is an error. So is a folder that root cannot read,
// because it may hold a configuration.
func readSent(o *config.OpenPBS) Sent {
	home, err := o.MoMHome()
	if err != nil {
		return Sent{}
	}
	hooks := openpbs.HooksOf(home)
	name, err := hooks.Ours()
	unseen := errors.Is(err, fs.ErrPermission) && !IsRoot()
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !unseen {
		return Sent{Path: string(hooks), err: fmt.Errorf("look for PBS's configuration: %w: root has to read it", err)}
	}
	if name == "" {
		return Sent{}
	}
	s := Sent{Path: hooks.Config(name)}
	s.Text, s.err = ReadSent(s.Path)
	switch {
	case errors.Is(s.err, fs.ErrNotExist):
		return Sent{}
	case s.err == nil && len(s.Text) == 0:
		s.err = fmt.Errorf("%s: empty: pbs_mom has not written it yet", s.Path)
	}
	return s
}

// parse returns the configuration on a node with these values for its conditions.
func (s Sent) parse(here config.Here) (*config.File, error) {
	if s.err != nil {
		return nil, s.err
	}
	file, err := config.Parse(s.Text, here)
	if err == nil {
		err = config.CheckSent(s.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", s.Path, err)
	}
	return file, nil
}
