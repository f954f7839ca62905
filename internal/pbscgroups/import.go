// Package pbscgroups turns the configuration of OpenPBS's cgroups hook (pbs_cgroups.CF, JSON) into
// one of hookhost's (hookhost.toml), and says of each key what became of it. Nothing is left out
// without a word.
//
// Facts are those of openpbs src/hooks/cgroups/pbs_cgroups.PY. The file is merged deep over the
// defaults of parse_config_file. morph_config_dict_bools then decides from conditions and from
// lists of hosts and vntypes what is enabled on this host. A default of the stock code that is not
// ours is written out, so that a node does what it did.
package pbscgroups

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/config"
)

// Became is what became of a key.
type Became string

const (
	// Ours is a key that is one or more of ours.
	Ours Became = "ours"
	// NotNeeded is a key that nothing is lost without.
	NotNeeded Became = "not needed"
	// Refused is a key that somebody may rely on and that hookhost cannot follow, or not in all of
	// it.
	Refused Became = "refused"
	// Unknown is a key that the stock hook does not know either, and ignores.
	Unknown Became = "unknown"
)

// Key is a key of the stock configuration.
type Key struct {
	Key    string   `json:"key"`            // "cgroup.memory.default"
	Line   int      `json:"line,omitempty"` // counted from 1; 0 for a default of the stock code that is not ours
	Value  string   `json:"value"`          // as JSON
	Became Became   `json:"became"`
	Ours   []string `json:"ours,omitempty"` // lines of hookhost.toml: `memory.default = "256mb"`
	Why    string   `json:"why,omitempty"`  // why not, or what differs
}

// Import is what became of a configuration.
type Import struct {
	// TOML is the text of a hookhost.toml, which config.Parse takes for any host and vntype.
	TOML []byte
	// Keys are all keys of the file in its order, then defaults of the stock code that are not
	// ours.
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

// Read reads a pbs_cgroups configuration. Read fails on a text that is not JSON, on a key that is
// there twice and on a value of the wrong type. Errors name the line and the key. Values that
// hookhost has no room for are no errors but refused.
func Read(b []byte) (*Import, error) {
	top, err := parse(b)
	if err != nil {
		return nil, err
	}
	i := &importer{values: map[string]string{}, from: map[string][]string{}, given: map[string]value{}}
	if err := i.members(top, ""); err != nil {
		return nil, err
	}
	if err := i.defaults(); err != nil {
		return nil, err
	}
	if err := i.enable(); err != nil {
		return nil, err
	}
	return i.finish()
}

// importer collects what becomes of each key.
type importer struct {
	given  map[string]value    // keys of the file that are known, by name
	rows   []row               // of all keys
	values map[string]string   // of hookhost.toml, by key
	from   map[string][]string // which keys of the file these come from
}

// row is a Key whose lines of hookhost.toml are not known yet, since several keys may go into one.
type row struct {
	Key
	ours []string
}

// members takes the keys of a section.
func (i *importer) members(section value, name string) error {
	for _, m := range section.members {
		full := join(name, m.key)
		isController := slices.ContainsFunc(sections, func(s controller) bool { return s.name == m.key })
		if full == "cgroup" || name == "cgroup" && isController {
			if m.value.kind != table {
				return wrong(full, m.value, fmt.Errorf("want %s", table))
			}
			if err := i.members(m.value, full); err != nil {
				return err
			}
			continue
		}
		k, isKnown := known(full)
		if !isKnown {
			i.rows = append(i.rows, row{Key: Key{
				Key: full, Line: m.value.line, Value: m.value.String(),
				Became: Unknown, Why: "the stock hook does not know it either",
			}})
			continue
		}
		if err := i.addKey(k, m.value); err != nil {
			return err
		}
	}
	return nil
}

// addKey records what becomes of the value of a key.
func (i *importer) addKey(k key, v value) error {
	i.given[k.name] = v
	r := row{Key: Key{Key: k.name, Line: v.line, Value: v.String(), Became: Ours, Why: k.note}, ours: k.ours}
	if k.read != nil {
		o, err := k.read(v)
		if err != nil {
			return wrong(k.name, v, err)
		}
		r.Became, r.ours = o.became, nil
		if o.why != "" {
			r.Why = o.why
		}
		for _, s := range o.set {
			r.ours = append(r.ours, s.key)
			i.set(s, k.name)
		}
	}
	i.rows = append(i.rows, r)
	return nil
}

// set takes one setting. discover_gpus alone comes of two keys, and is false where one of them says
// so.
func (i *importer) set(s setting, from string) {
	if i.values[s.key] != "false" {
		i.values[s.key] = s.value
	}
	i.from[s.key] = append(i.from[s.key], from)
}

// wrong is an error of the file's author.
func wrong(name string, v value, err error) error {
	shown := v.String()
	if len(shown) > 80 {
		shown = string(v.kind)
	}
	return fmt.Errorf("line %d: %s = %s: %w", v.line, name, shown, err)
}

// defaults adds what the stock code has where the file says nothing and ours has something else.
func (i *importer) defaults() error {
	for _, k := range keys {
		if _, given := i.given[k.name]; given || k.stock == "" || k.read == nil || k.ours == nil {
			continue
		}
		v, err := stockValue(k)
		if err != nil {
			return err
		}
		o, err := k.read(v)
		if err != nil {
			return fmt.Errorf("default of %s: %w", k.name, err)
		}
		for _, s := range o.set {
			if _, made := i.values[s.key]; made || isDefault(s) {
				continue
			}
			i.set(s, "default of "+k.name)
			i.rows = append(i.rows, row{Key{Key: k.name, Value: v.String(), Became: Ours, Why: k.note},
				[]string{s.key}})
		}
	}
	return nil
}

func stockValue(k key) (value, error) {
	whole, err := parse([]byte(`{"":` + k.stock + `}`))
	if err != nil {
		return value{}, fmt.Errorf("default of %s: %w", k.name, err)
	}
	return whole.members[0].value, nil
}

// isDefault reports whether hookhost.toml says the same without the setting.
func isDefault(s setting) bool {
	f, err := config.Parse([]byte(s.key+" = "+s.value+"\n"), config.Here{})
	if err != nil {
		return false
	}
	changes, err := config.Changes(config.Default(), f)
	return err == nil && len(changes) == 0
}

// finish writes the text, which has to be a configuration, and completes the rows by it.
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
		return nil, fmt.Errorf("what it becomes is no configuration of hookhost: %s", text)
	}
	return got, nil
}
