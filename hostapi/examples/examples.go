// Package examples has one hook in two languages. docs/hooks.md explains the one in Go, and
// docs/hooks-any-language.md the one in Python. `hookhost hook new` copies them.
package examples

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed deny/main.go deny/main_test.go deny/Makefile
//go:embed deny-python/hook.py deny-python/test_hook.py deny-python/Makefile
var files embed.FS

// name is the name of the hook, in its texts too.
const name = "deny"

// folders has the languages.
var folders = map[string]string{"go": "deny", "python": "deny-python"}

// New returns the files of a new hook, by name: the program, its test and a Makefile. It fails for
// a language other than go and python.
func New(language, hook string) (map[string]string, error) {
	folder, known := folders[language]
	if !known {
		return nil, fmt.Errorf("language %q: want go or python", language)
	}
	list, err := files.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	made := map[string]string{}
	if language == "go" {
		made["go.mod"] = "module " + hook + "\n\ngo 1.26\n"
	}
	for _, file := range list {
		text, err := files.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		made[file.Name()] = strings.ReplaceAll(string(text), name, hook)
	}
	return made, nil
}
