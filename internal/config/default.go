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
)

// defaults is the default configuration: every setting with its comment, in the order in which
// `config show` prints them.
//
//go:embed default.toml
var defaults string

// deviceExample begins the part of defaults that applies only to a node without configured devices.
const deviceExample = "\n# Devices that are not found"

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
	text, example, _ := strings.Cut(defaults, deviceExample)
	if len(f.Device) == 0 {
		text += deviceExample + example
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
			extra = !strings.Contains(text, line) // device
		}
		if extra {
			lines = append(lines, line)
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

// Show returns the configuration as TOML does. A comment after each value says where it comes from:
// "default", or the file with that name for people, and the line there.
func (f *File) Show(file string) ([]byte, error) {
	text, err := f.TOML()
	if err != nil {
		return nil, err
	}
	origins := map[string]string{}
	walk(f.text, func(key []string, line int, _ *unstable.Node) {
		name := settingOf(key)
		origins[name] = cmp.Or(origins[name], fmt.Sprintf("%s, line %d", file, line))
	})
	lines := strings.SplitAfter(string(text), "\n")
	walk(text, func(key []string, line int, _ *unstable.Node) {
		origin := cmp.Or(origins[settingOf(key)], "default")
		lines[line-1] = strings.TrimSuffix(lines[line-1], "\n") + " # " + origin + "\n"
	})
	return []byte(strings.Join(lines, "")), nil
}

// Keys returns the names of all tables and settings, in the order of `config show`. The keys of a
// [[device]] are not among them.
func Keys() []string {
	var keys []string
	walk([]byte(defaults), func(key []string, _ int, _ *unstable.Node) {
		if len(key) > 1 && !slices.Contains(keys, key[0]) {
			keys = append(keys, key[0])
		}
		keys = append(keys, settingOf(key))
	})
	return keys
}

// settingOf returns the key of a setting: all [[device]] tables together are one.
func settingOf(key []string) string {
	if under(key, []string{"device"}) {
		return "device"
	}
	return strings.ToLower(strings.Join(key, "."))
}
