package config

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Show returns the configuration as TOML does. A comment after each value says where it comes from:
// "default", or a layer, by its name from called, and the line there.
func (f *File) Show(called func(Layer) string) ([]byte, error) {
	text, err := f.TOML()
	if err != nil {
		return nil, err
	}
	origins := map[string]string{}
	for _, l := range f.layers {
		own := map[string]string{}
		walk(l.Text, func(key []string, line int, _ *unstable.Node) {
			name := settingOf(key)
			own[name] = cmp.Or(own[name], fmt.Sprintf("%s, line %d", called(l), line))
		})
		maps.Copy(origins, own)
	}
	lines := strings.SplitAfter(string(text), "\n")
	walk(text, func(key []string, line int, _ *unstable.Node) {
		origin := cmp.Or(origins[settingOf(key)], "default")
		lines[line-1] = strings.TrimSuffix(lines[line-1], "\n") + " # " + origin + "\n"
	})
	return []byte(strings.Join(lines, "")), nil
}

// settingOf returns the key that Merge takes as a whole from one layer.
func settingOf(key []string) string {
	if under(key, []string{"device"}) {
		return "device"
	}
	return strings.ToLower(strings.Join(key, "."))
}
