package hookhost_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const (
	commentColumns = 100
	codeColumns    = 120
	tabColumns     = 4
	sentenceWords  = 25
	sampleColumns  = 60
)

var (
	// vague are verbs that do not say what a function does.
	vague = strings.Fields("tell say have take keep look own word")
	// participles are file names that name no thing.
	participles = strings.Fields("altered attached captured configured dropped dying enabled finished forged " +
		"found frozen given hidden holding kept lost seen sent taken unseen used waiting")
)

// TestTextFollowsTheRules reads each Go file of the module. The rules are about the width of lines,
// the length of a comment's sentences, and the names of tests, functions and files.
func TestTextFollowsTheRules(t *testing.T) {
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".pb.go"):
			return nil
		}
		dir := path.Dir(filepath.ToSlash(name))
		found[dir] = append(found[dir], textFindings(t, name)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if len(found[dir]) > 0 {
			t.Error(strings.Join(found[dir], "\n"))
		}
	}
}

// textFindings returns what one file has against the rules: a place and what to do there, each.
func textFindings(t *testing.T, name string) []string {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	r := &text{set: set}
	r.width(name, string(source), file)
	for _, group := range file.Comments {
		r.sentences(group)
	}
	r.names(file)
	base, _, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".go"), "_")
	if slices.Contains(participles, base) {
		r.findings = append(r.findings, name+": name the file after the noun inside, not by a participle")
	}
	return r.findings
}

// text is one file that is read.
type text struct {
	set      *token.FileSet
	findings []string
}

func (r *text) find(at token.Pos, message string) {
	r.findings = append(r.findings, r.set.Position(at).String()+": "+message)
}

// width finds lines that are too wide. The lines of a long raw string are data of any width.
func (r *text) width(name, source string, file *ast.File) {
	raw := map[int]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, is := node.(*ast.BasicLit)
		if is && literal.Kind == token.STRING && strings.HasPrefix(literal.Value, "`") {
			first, last := r.set.Position(literal.Pos()).Line, r.set.Position(literal.End()).Line
			for line := first; line <= last && (first < last || len(literal.Value) > sampleColumns); line++ {
				raw[line] = true
			}
		}
		return true
	})
	start := r.set.File(file.Pos())
	number := 0
	for line := range strings.Lines(source) {
		number++
		line = strings.TrimRight(line, "\n")
		columns := utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabColumns-1)
		trimmed := strings.TrimLeft(line, "\t ")
		switch {
		case raw[number] || strings.HasPrefix(trimmed, "//go:"):
		case strings.HasPrefix(trimmed, "//") && columns > commentColumns:
			r.find(start.LineStart(number), fmt.Sprintf("wrap the comment at %d columns", commentColumns))
		case !strings.HasPrefix(trimmed, "//") && columns > codeColumns:
			r.find(start.LineStart(number), fmt.Sprintf("break the line: code has %d columns", codeColumns))
		}
	}
}

var (
	quoted = regexp.MustCompile("`[^`]*`")
	ending = regexp.MustCompile(`[.!?]\s+\S|:\s+[A-Z]`)
)

// sentences finds sentences that are too long. The indented lines of a comment are data.
func (r *text) sentences(group *ast.CommentGroup) {
	var block strings.Builder
	for _, comment := range group.List {
		line := strings.TrimPrefix(comment.Text, "//")
		switch {
		case strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  "):
			block.WriteString(". ")
		default:
			block.WriteString(" " + line)
		}
	}
	rest := quoted.ReplaceAllString(strings.Join(strings.Fields(block.String()), " "), "x")
	for rest != "" {
		sentence := rest
		if end := ending.FindStringIndex(rest); end != nil {
			sentence = rest[:end[1]-1]
		}
		rest = rest[len(sentence):]
		words := strings.Fields(sentence)
		if len(words) > sentenceWords {
			r.find(group.Pos(), fmt.Sprintf("cut the sentence at %d words: %s",
				sentenceWords, strings.Join(words[:6], " ")))
		}
	}
}

// names finds tests that are named by one word and functions named by a verb that says too little.
func (r *text) names(file *ast.File) {
	for _, declaration := range file.Decls {
		function, is := declaration.(*ast.FuncDecl)
		if !is {
			continue
		}
		name := function.Name.Name
		if slices.Contains(vague, strings.ToLower(camel(name)[0])) {
			r.find(function.Pos(), "name "+name+" by a verb that says what it does")
		}
		behaviour, isTest := strings.CutPrefix(name, "Test")
		framework := behaviour == "Main" || behaviour == "Script" // a script's name says its behaviour
		if isTest && function.Recv == nil && !framework && len(camel(behaviour)) < 2 {
			r.find(function.Pos(), "name "+name+" by the behaviour that it asserts")
		}
	}
}

// camel returns the words of a name. A run of capitals is one word with what follows it.
func camel(name string) []string {
	words := []string{}
	start := 0
	runes := []rune(name)
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) {
			words = append(words, string(runes[start:i]))
			start = i
		}
	}
	return append(words, string(runes[start:]))
}
