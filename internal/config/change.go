package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Change is a setting that differs between two configurations.
type Change struct {
	Key string `json:"key"` // "cgroup.prefix"; "device" for the list of [[device]] tables
	Old string `json:"old"` // as JSON; "null" if it is not set at all
	New string `json:"new"`
}

// restartOnly lists the settings that a reload cannot change, because live jobs, or the daemon's
// programs, depend on them.
var restartOnly = []string{"host.node", "cgroup.prefix", "cgroup.mount", "host.start_timeout",
	"host.allow_unsafe_hooks"}

// NeedsRestart reports whether the change takes effect only when the daemon starts.
func (c Change) NeedsRestart() bool { return slices.Contains(restartOnly, c.Key) }

// Changes returns the settings of g that differ from f, by key.
func Changes(f, g *File) ([]Change, error) {
	before, err := settings(f)
	if err != nil {
		return nil, err
	}
	after, err := settings(g)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	var changes []Change
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c := Change{Key: key, Old: "null", New: "null"}
		if v, ok := before[key]; ok {
			c.Old = v
		}
		if v, ok := after[key]; ok {
			c.New = v
		}
		if c.Old != c.New {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// settings returns every setting as JSON, by key.
func settings(f *File) (map[string]string, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("compare configurations: %w", err)
	}
	var tables map[string]json.RawMessage
	if err := json.Unmarshal(b, &tables); err != nil {
		return nil, fmt.Errorf("compare configurations: %w", err)
	}
	all := map[string]string{}
	for table, text := range tables {
		var keys map[string]json.RawMessage
		if json.Unmarshal(text, &keys) != nil { // a list of tables
			all[table] = string(text)
			continue
		}
		for key, value := range keys {
			all[table+"."+key] = string(value)
		}
	}
	return all, nil
}
