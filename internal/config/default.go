package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hookhost/hookhost/internal/spelling"
)

// defaults is the default configuration: every setting with its comment, in the order in which
// `config show` prints them.
//
//go:embed default.toml
var defaults string

// The parts of defaults that apply only to a node without configured devices, and without advice of
// the site, begin with these. They are the last, in this order.
const (
	deviceExample = "\n# Devices that are not found"
	adviceExample = "\n# Advice of the site"
)

// Default returns the default configuration.
func Default() *File {
	f := new(File)
	if err := toml.Unmarshal([]byte(defaults), f); err != nil {
		panic(fmt.Sprintf("default.toml: %v", err)) // a defect of the program
	}
	return f
}

// FromJSON returns the configuration that the host passes to hooks. Empty text means the defaults.
func FromJSON(text []byte) (*File, error) {
	f := Default()
	if len(text) > 0 {
		if err := json.Unmarshal(text, f); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
	}
	return f, nil
}

// TOML returns the file with every value and its comment, as `config show` prints it. Parse can
// read it.
func (f *File) TOML() ([]byte, error) {
	text, examples, _ := strings.Cut(defaults, deviceExample)
	devices, advice, _ := strings.Cut(examples, adviceExample)
	if len(f.Device) == 0 {
		text += deviceExample + devices
	}
	if len(f.Advice) == 0 {
		text += adviceExample + advice
	}
	b, err := toml.Marshal(f)
	if err != nil {
		return nil, err
	}
	own := strings.SplitAfter(string(b), "\n")
	values := map[string]string{}
	walk(b, func(key []string, line int, _ *unstable.Node) { values[settingOf(key)] = own[line-1] })

	lines := strings.SplitAfter(text, "\n")
	walk([]byte(text), func(key []string, line int, _ *unstable.Node) { lines[line-1] = values[settingOf(key)] })
	extra := false
	for _, line := range own {
		if strings.HasPrefix(line, "[") {
			extra = !strings.Contains(text, line) // device, advice
		}
		if extra {
			lines = append(lines, line)
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

// Setting is a setting's value and where it comes from.
type Setting struct {
	Key    string          `json:"key"` // "memory.default"; "device" and "advice" for all of their tables
	Value  json.RawMessage `json:"value"`
	Source string          `json:"source"` // "default", or the file for people
	Line   int             `json:"line,omitempty"`
}

// Settings returns every setting below keys, or all without keys, in the order of Show. Their
// source is "default", or the file with that name for people. It fails for an unknown key.
func (f *File) Settings(file string, keys ...string) ([]Setting, error) {
	values, err := settings(f)
	if err != nil {
		return nil, err
	}
	if keys, err = lowerKeys(keys); err != nil {
		return nil, err
	}
	lines := f.lines()
	var list []Setting
	for _, key := range Keys() {
		value, ok := values[key]
		if !ok || len(keys) > 0 && !under([]string{key}, keys) {
			continue
		}
		s := Setting{Key: key, Value: json.RawMessage(value), Source: "default"}
		if s.Line = lines[key]; s.Line > 0 {
			s.Source = file
		}
		list = append(list, s)
	}
	return list, nil
}

// lowerKeys returns keys in lower case. It fails for a key that is neither a table nor a setting.
func lowerKeys(keys []string) ([]string, error) {
	known := Keys()
	lower := make([]string, len(keys))
	for i, key := range keys {
		lower[i] = strings.ToLower(key)
		if !slices.Contains(known, lower[i]) {
			return nil, spelling.Unknown("key", key, known)
		}
	}
	return lower, nil
}

// lines returns the line of each setting in the file's text.
func (f *File) lines() map[string]int {
	lines := map[string]int{}
	walk(f.text, func(key []string, line int, _ *unstable.Node) {
		names := []string{settingOf(key)}
		if len(key) > 2 { // an inline table
			names = append(names, settingOf(key[:2]))
		}
		for _, name := range names {
			lines[name] = cmp.Or(lines[name], line)
		}
	})
	return lines
}

// Show returns the configuration as TOML does. A comment after each value says where it comes from:
// "default", or the file with that name for people, and the line there. With keys, it returns only
// the settings below them. It fails for an unknown key.
func (f *File) Show(file string, keys ...string) ([]byte, error) {
	keys, err := lowerKeys(keys)
	if err != nil {
		return nil, err
	}
	text, err := f.TOML()
	if err != nil {
		return nil, err
	}
	origins := f.lines()
	lines := strings.SplitAfter(string(text), "\n")
	chosen := map[int]bool{}
	walk(text, func(key []string, line int, _ *unstable.Node) {
		origin := "default"
		if at := origins[settingOf(key)]; at > 0 {
			origin = fmt.Sprintf("%s, line %d", file, at)
		}
		lines[line-1] = strings.TrimSuffix(lines[line-1], "\n") + " # " + origin + "\n"
		chosen[line-1] = under(key, keys)
	})
	if len(keys) > 0 {
		lines = only(lines, chosen)
	}
	return []byte(strings.Join(lines, "")), nil
}

// only returns the lines of the chosen settings, with their comments and the heads of their tables.
// chosen has the line of each setting.
func only(lines []string, chosen map[int]bool) []string {
	var result, head, comment []string
	for i, line := range lines {
		is, isSetting := chosen[i]
		switch {
		case strings.HasPrefix(line, "["):
			head, comment = append(comment, line), nil
		case !isSetting:
			comment = append(comment, line)
		case is:
			result = append(append(append(result, head...), comment...), line)
			head, comment = nil, nil
		default:
			comment = nil
		}
	}
	if len(result) > 0 && result[0] == "\n" {
		result = result[1:]
	}
	return result
}

// Keys returns the names of all tables and settings, in the order of `config show`. All [[device]]
// tables together are one, and so are all [[advice]] tables.
func Keys() []string {
	var keys []string
	walk([]byte(defaults), func(key []string, _ int, _ *unstable.Node) {
		if len(key) > 1 && !slices.Contains(keys, key[0]) {
			keys = append(keys, key[0])
		}
		keys = append(keys, settingOf(key))
	})
	return append(keys, "billing.weights", "device", "advice") // which have no default
}

// settingOf returns the key of a setting: all [[device]] tables together are one, and so are all
// [[advice]] tables.
func settingOf(key []string) string {
	for _, list := range []string{"device", "advice"} {
		if under(key, []string{list}) {
			return list
		}
	}
	return strings.ToLower(strings.Join(key, "."))
}
