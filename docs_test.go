package hookhost_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/hookhost/hookhost/internal/must"
)

// pages returns the documents of the tree: those beside this file, and those of docs.
func pages(t *testing.T) []string {
	t.Helper()
	top, err := filepath.Glob("*.md")
	must.NoError(t, err)
	docs, err := filepath.Glob("docs/*.md")
	must.NoError(t, err)
	return append(top, docs...)
}

func TestEveryPageIsListedOnce(t *testing.T) {
	list, err := os.ReadFile("docs/README.md")
	must.NoError(t, err)
	entry := regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(([^)#]+\.md)\) \|`)
	var listed []string
	for _, match := range entry.FindAllSubmatch(list, -1) {
		listed = append(listed, path.Join("docs", string(match[1])))
	}
	slices.Sort(listed)
	want := slices.DeleteFunc(pages(t), func(name string) bool {
		return filepath.Dir(name) == "." || name == "docs/README.md"
	})
	must.Equal(t, "pages that docs/README.md lists", want, listed)
}

// TestLinksOfPagesLead follows each link to a file of the tree and to a heading in it.
func TestLinksOfPagesLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(prose(t, name), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: link to %s: %v", name, match[1], err)
			} else if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
				t.Errorf("%s: link to %s: no such heading", name, match[1])
			}
		}
	}
}

// TestPlaybooksOfPagesAreValid parses each block of YAML, and has ansible check it where that is
// installed.
func TestPlaybooksOfPagesAreValid(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	found := 0
	for _, name := range pages(t) {
		text, err := os.ReadFile(name)
		must.NoError(t, err)
		for _, match := range block.FindAllSubmatch(text, -1) {
			found++
			var plays []struct {
				Hosts string
				Tasks []map[string]any
			}
			if err := yaml.Unmarshal(match[1], &plays); err != nil || len(plays) == 0 || len(plays[0].Tasks) == 0 {
				t.Errorf("%s: playbook: %v, %v", name, plays, err)
			}
			ansible, err := exec.LookPath("ansible-playbook")
			if err != nil {
				continue
			}
			file := filepath.Join(t.TempDir(), "playbook.yml")
			must.NoError(t, os.WriteFile(file, match[1], 0o600))
			if out, err := exec.Command(ansible, "--syntax-check", file).CombinedOutput(); err != nil {
				t.Errorf("%s: playbook: %v: %s", name, err, out)
			}
		}
	}
	if found == 0 {
		t.Error("no page has a playbook")
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	indented = regexp.MustCompile(`(?m)^ {4}.*$`)
	inline   = regexp.MustCompile("`[^`\n]*`")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unlinked = regexp.MustCompile(`\]\([^)]*\)`)
	slug     = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// prose returns a document without its code.
func prose(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must.NoError(t, err)
	for _, code := range []*regexp.Regexp{fenced, indented, inline} {
		text = code.ReplaceAll(text, nil)
	}
	return string(text)
}

// anchors returns the names that GitHub gives the headings of a document.
func anchors(t *testing.T, name string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	must.NoError(t, err)
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		words := slug.ReplaceAllString(strings.ToLower(unlinked.ReplaceAllString(match[1], "")), "")
		found = append(found, strings.ReplaceAll(words, " ", "-"))
	}
	return found
}

// foreign are messages that PBS, the kernel and programs print.
var foreign = []string{
	"No such file or directory", "Connection refused", "Operation not permitted",
	"Resource temporarily unavailable", "No space left on device", "User defined signal 1", "permission denied",
	"job held, too many failed attempts to run", "Hold_Types = s", "Failed to run", "unauthorized to access hooks data",
	"pending delete", "state = <various>", "-p",
}

// TestMessagesOfTroubleshootingAreReal looks in the program's source for each message that the page
// quotes in the first column of a table. "..." stands for what differs. Each cause of a wrapped
// error is looked for alone, and so is what stands in quotes.
func TestMessagesOfTroubleshootingAreReal(t *testing.T) {
	source := sources(t)
	page, err := os.ReadFile("docs/troubleshooting.md")
	must.NoError(t, err)
	_, tables, _ := strings.Cut(string(page), "\n## ")
	messages := 0
	for line := range strings.Lines(tables) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, quote := range inline.FindAllString(cell, -1) {
			messages++
			for _, part := range separators.Split(strings.Trim(quote, "`"), -1) {
				part = strings.Trim(part, " ()")
				if !slices.Contains(foreign, part) && !strings.Contains(source, part) {
					t.Errorf("nothing prints %q of %s", part, quote)
				}
			}
		}
	}
	if messages == 0 {
		t.Error("no messages")
	}
}

var separators = regexp.MustCompile(`\.\.\.|: |'`)

// sources returns the code of the programs, in which each Go string stands on one line.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"cmd", "hooks", "integrations", "internal", "hostapi"} {
		must.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			isCode := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") ||
				strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".toml")
			if err != nil || !isCode {
				return err
			}
			text, err := os.ReadFile(name)
			all.Write(text)
			return err
		}))
	}
	split := regexp.MustCompile(`"\s*\+\s*"`)
	return strings.ReplaceAll(split.ReplaceAllString(all.String(), ""), `\"`, `"`)
}
