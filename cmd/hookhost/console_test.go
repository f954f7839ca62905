package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestConsoleShowsWhatATerminalWouldObey(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a line\n\tof äöü → 世\n", "a line\n\tof äöü → 世\n"},
		{"\x1b[2J\x1b]0;root\a", `\u001b[2J\u001b]0;root\u0007`},
		{"over\rwritten\b", `over\u000dwritten\u0008`},
		{"\u009b31m \x9b", `\u009b31m \x9b`},
		{"\u202egnp.exe\U000e0001", `\u202egnp.exe\udb40\udc01`},
	} {
		var b bytes.Buffer
		if n, err := (console{&b}).Write([]byte(tt.text)); n != len(tt.text) || err != nil || b.String() != tt.want {
			t.Errorf("%q: %q, %d, %v; want %q", tt.text, b.String(), n, err, tt.want)
		}
	}
}

func FuzzConsole(f *testing.F) {
	f.Add("\x1b[2J")
	f.Add("\U000e0001\x9b\u009b")
	f.Fuzz(func(t *testing.T, text string) {
		var b, again bytes.Buffer
		(console{&b}).Write([]byte(text))
		obeyed := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
		if strings.ContainsFunc(b.String(), obeyed) {
			t.Errorf("%q: %q", text, b.String())
		}
		whole, err := json.Marshal(text)
		must.NoError(t, err)
		(console{&again}).Write(whole)
		var before, after string
		if json.Unmarshal(whole, &before) != nil || json.Unmarshal(again.Bytes(), &after) != nil || before != after {
			t.Errorf("JSON %s became %s", whole, again.Bytes())
		}
	})
}

// Only what is a job's, or a command's of its user's, goes around the console; and what is to be
// the same byte for byte.
func TestEverythingElseIsSaidOnTheConsole(t *testing.T) {
	const tm = "../../internal/tm"
	allowed := map[string]int{
		"console.go": 2,
		"top.go":     2, // a screen; internal/top has names printable
		// The streams of programs that they start.
		"run.go":          2,
		tm + "/attach.go": 2,
	}
	around := []string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println"}
	files, err := filepath.Glob("*.go")
	must.NoError(t, err)
	attaching, err := filepath.Glob(tm + "/*.go")
	must.NoError(t, err)
	if files = append(files, attaching...); len(files) == 0 {
		kernfstest.Elsewhere(t, "sources: this machine's kernel tests have them")
	}
	used := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := s.X.(*ast.Ident)
			if of != nil && slices.Contains(around, of.Name+"."+s.Sel.Name) {
				used[file]++
			}
			return true
		})
	}
	if !maps.Equal(used, allowed) {
		t.Errorf("%v are in %v, want %v: print to stdout, stderr or cmd.OutOrStdout()", around, used, allowed)
	}
}
