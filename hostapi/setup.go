package hostapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/sirupsen/logrus"
)

// Setup is the argument of a hook's constructor.
type Setup struct {
	Name   string // the hook's name on this node
	Node   string // this host as exec_vnode names it; "" under --describe
	Config []byte // the configuration file as it was imported; empty when there is none
	// Host holds settings of the node that all hooks share, by name. state_dir is the state
	// directory, and run_dir the one for what does not outlive the boot. aux_dir is for files that
	// jobs read. remsh is the path of hookhost-remsh.
	Host map[string]string
	Log  *logrus.Entry // writes to the host's log, which adds the hook's name
}

// Decode reads the configuration into the struct that into points to. The format is TOML, or JSON
// if it begins with a brace. A key that is absent leaves its field unchanged, so set the defaults
// first. Unknown keys and values of the wrong type are errors of KindNode. They name the line,
// except for an unknown key in JSON.
func (s *Setup) Decode(into any) error {
	text := bytes.TrimSpace(s.Config)
	var err error
	switch {
	case len(text) == 0:
		return nil
	case text[0] == '{':
		err = decodeJSON(s.Config, into)
	default:
		err = decodeTOML(s.Config, into)
	}
	if err != nil {
		return Errorf(KindNode, "configuration of hook %s: %w", s.Name, err)
	}
	return nil
}

func decodeTOML(text []byte, into any) error {
	dec := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	err := dec.Decode(into)
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(missing.Errors) > 0 {
		first := missing.Errors[0]
		row, _ := first.Position()
		return fmt.Errorf("line %d: %s: unknown key", row, Printable(strings.Join(first.Key(), ".")))
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, _ := bad.Position()
		return fmt.Errorf("line %d: %w", row, bad)
	}
	return err
}

func decodeJSON(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("line %d: %w", lineAt(text, syntax.Offset-1), syntax)
	}
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("line %d: %w", lineAt(text, bad.Offset), wrongType(bad))
	}
	if err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	return strict.Decode(into)
}

// lineAt returns the line number of an offset, counted from 1.
func lineAt(text []byte, offset int64) int {
	offset = max(0, min(offset, int64(len(text))))
	return 1 + bytes.Count(text[:offset], []byte{'\n'})
}
