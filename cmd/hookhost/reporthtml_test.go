package main_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/hookhost/hookhost/internal/must"
)

// The document of a job that has run is written to a file, and of several jobs a table. A name that
// is hostile to browsers stays a text.
func TestReportsAreDocumentsForABrowser(t *testing.T) {
	n := newNode(t)
	const name = `<script>x</script>`
	r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=64mb", "-N", name, "--report=json", "--", "true")
	if r.status != 0 {
		t.Fatalf("run: %+v", r)
	}
	job := r.report(t).Job
	file := n.path("report.html")
	if r := n.hookhost("report", job, "--format", "html", "--output", file); r.status != 0 || r.stdout+r.stderr != "" {
		t.Fatalf("report: %+v", r)
	}
	document, err := os.ReadFile(file)
	must.NoError(t, err)
	root, err := html.Parse(strings.NewReader(string(document)))
	must.NoError(t, err)
	heading := ""
	for e := range root.Descendants() {
		if e.Type == html.ElementNode && e.Data == "h1" {
			heading = e.FirstChild.Data
		}
		if e.Type == html.ElementNode && (e.Data == "script" || e.Data == "a") {
			t.Errorf("<%s>", e.Data)
		}
	}
	must.Equal(t, "the heading", name, heading)
	n.finished("7.x", ownerUID)
	if r := n.hookhost("report", "--format", "html"); r.status != 0 || strings.Count(r.stdout, "<tr>") != 3 ||
		!strings.HasSuffix(r.stdout, "</html>\n") {
		t.Errorf("a table: %+v", r)
	}
}
