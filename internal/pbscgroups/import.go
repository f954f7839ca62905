// Package pbscgroups converts the configuration of OpenPBS's cgroups hook (pbs_cgroups.CF, JSON) to
// hookhost's (hookhost.toml). It reports the result for every key.
//
// The facts are from openpbs src/hooks/cgroups/pbs_cgroups.PY. The file is merged deeply over the
// defaults of parse_config_file. From conditions and lists of hosts and vntypes,
// morph_config_dict_bools then decides what is enabled on this host. A default of the stock code
// that differs from ours is written out, so that a node behaves as before.
package pbscgroups

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/config"
)

// Became is the result for a key.
type Became string

const (
	// Ours is a key that corresponds to one or more of ours.
	Ours Became = "ours"
	// NotNeeded is a key that can be dropped without loss.
	NotNeeded Became = "not needed"
	// Refused is a key on which a site may rely and which hookhost cannot follow, at least in part.
	Refused Became = "refused"
	// Unknown is a key that the stock hook does not know either. It ignores the key.
	Unknown Became = "unknown"
)

// Key is a key of the stock configuration.
type Key struct {
	Key    string   `json:"key"`            // "cgroup.memory.default"
	Line   int      `json:"line,omitempty"` // counted from 1; 0 for a default of the stock code that differs from ours
	Value  string   `json:"value"`          // as JSON
	Became Became   `json:"became"`
	Ours   []string `json:"ours,omitempty"` // lines of hookhost.toml: `memory.default = "256mb"`
	Why    string   `json:"why,omitempty"`  // why there are none, or what differs
}

// Import is the result for a configuration.
type Import struct {
	// TOML is the text of a hookhost.toml, which config.Parse accepts for any host and vntype.
	TOML []byte
	// Keys are all keys of the file in its order, followed by defaults of the stock code that
	// differ from ours.
	Keys []Key
}

// Refused counts the keys that were refused.
func (i *Import) Refused() int {
	n := 0
	for _, k := range i.Keys {
		if k.Became == Refused {
			n++
		}
	}
	return n
}

// Read reads a pbs_cgroups configuration. It fails on a text that is not JSON, on a duplicate key
// and on a value of the wrong type. A condition or pattern that hookhost.toml cannot express is an
// error too. Errors name the line and the key. Other values that hookhost does not support are
// refused, not errors.
func Read(b []byte) (*Import, error) {
	entries, err := parse(b)
	if err != nil {
		return nil, err
	}
	i := &importer{values: map[string]string{}, from: map[string][]string{}, given: map[string]any{}}
	for _, e := range entries {
		if err := i.add(e); err != nil {
			return nil, err
		}
	}
	if err := i.defaults(); err != nil {
		return nil, err
	}
	i.enable()
	return i.finish()
}

// importer collects the result for each key.
type importer struct {
	given  map[string]any      // known keys of the file, by name
	rows   []row               // of all keys
	values map[string]string   // of hookhost.toml, by key
	from   map[string][]string // the keys of the file from which these result
}

// row is a Key whose lines of hookhost.toml are not known yet, because several keys may determine
// one line.
type row struct {
	Key
	ours []string
}

// add records the result for a key of the file.
func (i *importer) add(e entry) error {
	r := row{Key: Key{Key: e.name, Line: e.line, Value: quote(e.value), Became: Unknown,
		Why: "the stock hook does not know it either"}}
	if at := slices.IndexFunc(keys, func(k key) bool { return k.name == e.name }); at >= 0 {
		i.given[e.name] = e.value
		o, err := keys[at].read(e.value)
		if err != nil {
			shown := r.Value
			if len(shown) > 80 {
				shown = "its value"
			}
			return fmt.Errorf("line %d: %s = %s: %w", e.line, e.name, shown, err)
		}
		r.Became, r.Why = o.became, cmp.Or(o.why, keys[at].note)
		r.ours = i.set(e.name, o.set...)
		if o.became == Ours && len(o.set) == 0 { // becomes part of a condition
			r.ours = keys[at].ours
		}
	}
	i.rows = append(i.rows, r)
	return nil
}

// set records settings and returns their keys. Only discover_gpus results from two keys. It is
// false if one of them is.
func (i *importer) set(from string, settings ...setting) (made []string) {
	for _, s := range settings {
		if i.values[s.key] != "false" {
			i.values[s.key] = s.value
		}
		i.from[s.key] = append(i.from[s.key], from)
		made = append(made, s.key)
	}
	return made
}

// defaults adds defaults of the stock code that differ from ours, for keys that the file does not
// have.
func (i *importer) defaults() error {
	for _, k := range keys {
		if _, given := i.given[k.name]; given || k.stock == "" {
			continue
		}
		one, err := parse([]byte(`{"default":` + k.stock + `}`))
		if err != nil {
			return fmt.Errorf("default of %s: %w", k.name, err)
		}
		o, err := k.read(one[0].value)
		if err != nil {
			return fmt.Errorf("default of %s: %w", k.name, err)
		}
		for _, s := range o.set {
			if _, made := i.values[s.key]; !made && !isDefault(s) {
				r := Key{Key: k.name, Value: k.stock, Became: Ours, Why: k.note}
				i.rows = append(i.rows, row{r, i.set("default of "+k.name, s)})
			}
		}
	}
	return nil
}

// isDefault reports whether hookhost.toml has the same meaning without the setting.
func isDefault(s setting) bool {
	f, err := config.Parse([]byte(s.key+" = "+s.value+"\n"), config.Here{})
	if err != nil {
		return false
	}
	changes, err := config.Changes(config.Default(), f)
	return err == nil && len(changes) == 0
}

// finish completes the rows and writes the text, which must be a valid configuration.
func (i *importer) finish() (*Import, error) {
	got := &Import{}
	for _, r := range i.rows {
		for _, key := range r.ours {
			if value, made := i.values[key]; made {
				r.Ours = append(r.Ours, key+" = "+value)
			}
		}
		got.Keys = append(got.Keys, r.Key)
	}
	got.TOML = i.toml(got.Keys)
	if _, err := config.Parse(got.TOML, config.Here{}); err != nil {
		text := strings.ReplaceAll(err.Error(), "\n", "; ")
		return nil, fmt.Errorf("the result is not a valid configuration of hookhost: %s", text)
	}
	return got, nil
}

const preamble = `# Made by "hookhost config import" from a configuration of OpenPBS's hook pbs_cgroups.
# Behind each setting is the key that it comes from. docs/openpbs-migration.md tells what differs.
# Tables that are not here have what the stock hook does not: [walltime], [mpi], [rlimits] and others, see "hookhost config show".
`

// toml formats the settings, with the refused keys as comments.
func (i *importer) toml(rows []Key) []byte {
	var b strings.Builder
	b.WriteString(preamble)
	for _, k := range rows {
		if k.Became == Refused {
			fmt.Fprintf(&b, "# Refused: line %d: %s = %s: %s\n", k.Line, k.Key, comment(k.Value), comment(k.Why))
		}
	}
	var sections []string
	lines := map[string][]string{}
	for _, k := range keys {
		for _, ours := range k.ours {
			value, made := i.values[ours]
			section, name, _ := strings.Cut(ours, ".")
			line := name + " = " + value
			if from := i.from[ours]; len(from) > 0 {
				line += " # " + strings.Join(from, ", ")
			}
			if made && !slices.Contains(lines[section], line) {
				lines[section] = append(lines[section], line)
			}
			if made && !slices.Contains(sections, section) {
				sections = append(sections, section)
			}
		}
	}
	for _, section := range sections {
		fmt.Fprintf(&b, "\n[%s]\n%s\n", section, strings.Join(lines[section], "\n"))
	}
	return []byte(b.String())
}

// comment turns a text into one line of comment.
func comment(text string) string {
	const most = 200
	runes := []rune(strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, text))
	if len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return string(runes)
}
