package config

import (
	_ "embed"
	"fmt"
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
