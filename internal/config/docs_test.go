package config

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/configuration.md")

const (
	page      = "../../docs/configuration.md"
	pageBegin = "<!-- From here on it is made by: go test ./internal/config -update -->\n"
)

// docs/configuration.md has every setting with the comment and the default value of default.toml,
// and the values that the checks accept.
func TestPageHasEachSetting(t *testing.T) {
	text, err := os.ReadFile(page)
	must.NoError(t, err)
	written, _, found := strings.Cut(string(text), pageBegin)
	if !found {
		t.Fatalf("%s has no line %s", page, pageBegin)
	}
	var keys []string
	var list, sections strings.Builder
	for _, table := range readTables() {
		first, _, _ := strings.Cut(strings.TrimSuffix(table.meaning, "."), ". ")
		first, _, _ = strings.Cut(first, ": docs/")
		fmt.Fprintf(&list, "| [`%s`](#%s) | %s | %s |\n", table.head, table.name, markdown(first),
			markdown(docs.FindString(table.meaning)))
		sections.WriteString(table.markdown())
		for _, s := range table.settings {
			keys = append(keys, table.name+"."+s.name)
		}
	}
	for _, key := range Keys() {
		if strings.Contains(key, ".") && !slices.Contains(keys, key) {
			t.Errorf("%s is not on the page", key)
		}
	}
	for _, name := range docs.FindAllString(defaults, -1) {
		_, err := os.Stat("../../" + name)
		must.NoError(t, err)
	}
	made := written + pageBegin + "\n| table | what it is about | explained in |\n|---|---|---|\n" + list.String() +
		sections.String()
	if *update {
		must.NoError(t, os.WriteFile(page, []byte(made), 0o644))
	} else {
		must.Equal(t, page+" (go test ./internal/config -update writes it)", made, string(text))
	}
}

// Tables that documents show are configurations.
func TestTablesOfDocumentsAreConfigurations(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	must.NoError(t, err)
	for _, document := range append(documents, "../../README.md") {
		text, err := os.ReadFile(document)
		must.NoError(t, err)
		for _, block := range indented.FindAllString(string(text), -1) {
			block = strings.ReplaceAll(block, "\n    ", "\n")
			name := regexp.MustCompile(`^\n+\[+([a-z_]+)\]`).FindStringSubmatch(block)
			if name == nil || !slices.Contains(Keys(), name[1]) {
				continue
			}
			if _, err := Parse([]byte(block), Here{}); err != nil {
				t.Errorf("%s: %v in%s", document, err, block)
			}
		}
	}
}

// indented matches an indented block, from the line break before it.
var indented = regexp.MustCompile(`\n(\n    .*)+`)

// setting is a setting of default.toml.
type setting struct {
	name, value, meaning string
	unset                bool // it has no default; value is an example
}

// section is a table of default.toml. A list of tables has the head [[NAME]].
type section struct {
	name, head, meaning string
	settings            []setting
}

var (
	tableLine   = regexp.MustCompile(`^(?:# )?\[+([a-z_]+)\]+$`)
	settingLine = regexp.MustCompile(`^(# )?([a-z_]+) = (.*)$`)
)

func readTables() (tables []*section) {
	var comment []string
	meaning := func() string { defer func() { comment = nil }(); return strings.TrimSpace(strings.Join(comment, " ")) }
	for line := range strings.Lines(defaults) {
		line = strings.TrimSuffix(line, "\n")
		if m := tableLine.FindStringSubmatch(line); m != nil {
			tables = append(tables, &section{name: m[1], head: strings.TrimPrefix(line, "# "), meaning: meaning()})
		} else if m := settingLine.FindStringSubmatch(line); m != nil {
			last := tables[len(tables)-1]
			last.settings = append(last.settings, setting{m[2], m[3], meaning(), m[1] != ""})
		} else {
			comment = append(comment, strings.TrimPrefix(line, "# "))
		}
	}
	return tables
}

func (b *section) markdown() string {
	of, value := b.name+".", "default"
	isList := strings.HasPrefix(b.head, "[[")
	if isList {
		value = "example"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\n## `%s`\n\n%s\n\n| setting | %s | values | meaning |\n|---|---|---|---|\n",
		b.head, wrap(markdown(b.meaning)), value)
	for _, one := range b.settings {
		meaning, shown := markdown(one.meaning), "`"+one.value+"`"
		if one.unset && !isList {
			meaning, shown = meaning+" Example: "+shown, ""
		}
		if (Change{Key: of + one.name}).NeedsRestart() {
			meaning += " [A change needs a restart](#when-a-change-takes-effect)."
		}
		s.WriteString("|")
		for _, cell := range []string{"`" + one.name + "`", shown, markdown(b.values(one)), meaning} {
			s.WriteString(strings.TrimRight(" "+strings.ReplaceAll(cell, "|", `\|`), " ") + " |")
		}
		s.WriteString("\n")
	}
	return s.String()
}

// values describes the values of a setting by its type, and by the errors about values that no
// setting of the type accepts.
func (b *section) values(one setting) string {
	kind, probes := typeOf(typeAt(reflect.TypeFor[File](), []string{b.name, one.name}))
	var wants []string
	for _, probe := range probes {
		if len(wants) > 0 && kind != "duration" {
			break // a duration has a least and a largest value
		}
		text := "[" + b.name + "]\n"
		if strings.HasPrefix(b.head, "[[") {
			text = b.head + "\n"
			for _, other := range b.settings {
				if other.name != one.name {
					text += other.name + " = " + other.value + "\n"
				}
			}
		}
		_, err := Parse([]byte(text+one.name+" = "+probe), Here{})
		if err == nil {
			continue
		}
		_, want, found := strings.Cut(err.Error(), ": want ")
		want = wholeUnits.ReplaceAllString(want, "$1")
		if found && !slices.Contains(wants, want) {
			wants = append(wants, want)
		}
	}
	switch want := strings.Join(wants, "; "); {
	case want == "" && kind == "list":
		return "list of texts"
	case want == "":
		return kind
	case kind == "text":
		return want
	case kind == "boolean": // of the shim
		return "boolean; no condition"
	default:
		return kind + ": " + want
	}
}

// typeOf names a type for people, and returns values that a check may refuse.
func typeOf(t reflect.Type) (name string, probes []string) {
	switch {
	case t == reflect.TypeFor[Duration]():
		return "duration", []string{`"2000000h"`, `"1ns"`}
	case t == reflect.TypeFor[pbs.Size]():
		return "size", []string{`"0b"`}
	case t.Kind() == reflect.Bool:
		return "boolean", []string{`"host in: n1"`}
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "number", []string{"-9"}
	case t.Kind() == reflect.Float64:
		return "number", []string{"-1.0"}
	case t.Kind() == reflect.String:
		return "text", []string{`"?"`, `""`}
	case t.Kind() == reflect.Map:
		name, probes = typeOf(t.Elem())
		return "table of " + name + "s", []string{"{ NAME = " + probes[0] + " }"}
	case t.Elem().Kind() == reflect.Struct:
		return "list of tables", nil
	case t.Elem().Kind() == reflect.Interface:
		return "list", []string{"[1]"}
	}
	return "list", []string{`["?"]`, `["@"]`}
}

var (
	wholeUnits = regexp.MustCompile(`\b(\d+[hm])(?:0m)?0s`)
	docs       = regexp.MustCompile(`docs/[a-z-]+\.md`)
	inTables   = regexp.MustCompile(`\[([a-z_]+)\]`)
	// code is what is code in a comment: values in quotes, lists of them, options of qsub, paths.
	code = regexp.MustCompile("`[^`]+`" + `|\[[{"].*?[}"]\]|"[^"]+"|\b[a-z]+://\S*[^\s.,:;)]|\B-l \S*[^\s.,:;]|\{[a-z]+\}|\B/[a-z]\S*[^\s.,:;)]`)
)

// markdown returns the text of a comment as Markdown.
func markdown(text string) string {
	var b strings.Builder
	plain := func(s string) {
		s = strings.NewReplacer("*", `\*`, "<", `\<`).Replace(s)
		s = inTables.ReplaceAllStringFunc(s, func(name string) string {
			if name = strings.Trim(name, "[]"); slices.Contains(Keys(), name) {
				return "[`[" + name + "]`](#" + name + ")"
			}
			return "[" + name + "]"
		})
		b.WriteString(docs.ReplaceAllStringFunc(s, func(name string) string {
			return "[" + path.Base(name) + "](" + path.Base(name) + ")"
		}))
	}
	for text != "" {
		at := code.FindStringIndex(text)
		if at == nil {
			break
		}
		plain(text[:at[0]])
		b.WriteString("`" + strings.Trim(text[at[0]:at[1]], "`") + "`")
		text = text[at[1]:]
	}
	plain(text)
	return b.String()
}

// wrap breaks a paragraph into lines.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		if column += len(word) + 1; column > 101 {
			b.WriteString("\n")
			column = len(word) + 1
		} else if b.Len() > 0 {
			b.WriteString(" ")
		}
		b.WriteString(word)
	}
	return b.String()
}
