package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

func htmlOf(t *testing.T, reports ...*Report) string {
	t.Helper()
	f, err := FormatNamed("html")
	must.NoError(t, err)
	var b bytes.Buffer
	must.NoError(t, f(&b, slices.Values(reports)))
	return b.String()
}

func TestHTMLOfCasesIsAsTheGoldenFiles(t *testing.T) {
	for name := range cases {
		golden(t, filepath.Join("cases", name+".html"), []byte(htmlOf(t, charted(t, name))))
	}
	var all []*Report
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		all = append(all, charted(t, name))
	}
	golden(t, filepath.Join("cases", "table.html"), []byte(htmlOf(t, all...)))
}

// elements returns the elements of a document in order, each with the names of its attributes. A
// document that is not well-formed fails the test.
func elements(t *testing.T, document string) (list []string) {
	t.Helper()
	var open []string
	for z := html.NewTokenizer(strings.NewReader(document)); ; {
		kind := z.Next()
		token := z.Token()
		switch kind {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) || len(open) > 0 {
				t.Fatalf("the document ends within %v: %v", open, z.Err())
			}
			return list
		case html.StartTagToken, html.SelfClosingTagToken:
			text := token.Data
			for _, a := range token.Attr {
				text += " " + a.Key
			}
			list = append(list, text)
			if kind == html.StartTagToken && token.Data != "meta" && token.Data != "input" {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> within %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// The document is whole in itself, and a browser is told to load, run and send nothing.
func TestHTMLNeedsNothingBesideItself(t *testing.T) {
	documents := []string{htmlOf(t), htmlOf(t, charted(t, "steady"), charted(t, "leaking"))}
	for name := range cases {
		documents = append(documents, htmlOf(t, charted(t, name)))
	}
	for _, document := range documents {
		for _, e := range elements(t, document) {
			name, attributes, _ := strings.Cut(e, " ")
			if slices.Contains(strings.Fields("script link img iframe object image use a form"), name) {
				t.Errorf("<%s>", e)
			}
			for attribute := range strings.FieldsSeq(attributes) {
				if slices.Contains([]string{"src", "href", "style", "srcset", "action"}, attribute) ||
					strings.HasPrefix(attribute, "on") {
					t.Errorf("<%s>", e)
				}
			}
		}
		root, err := html.Parse(strings.NewReader(document))
		must.NoError(t, err)
		policy, style := "", ""
		for n := range root.Descendants() {
			switch {
			case n.Type == html.ElementNode && n.Data == "style":
				style = n.FirstChild.Data
			case n.Type == html.ElementNode && n.Data == "meta" && n.Attr[0].Val == "Content-Security-Policy":
				policy = n.Attr[1].Val
			}
		}
		sum := sha256.Sum256([]byte(style))
		must.Equal(t, "the policy", "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-"+
			base64.StdEncoding.EncodeToString(sum[:])+"'", policy)
		for _, bad := range []string{"url(", "@import", "ZgotmplZ"} { // the last is html/template's refusal
			if strings.Contains(document, bad) {
				t.Errorf("%q in:\n%s", bad, document)
			}
		}
	}
}

// Names that are chosen by users, hosts and drivers add no element and no attribute.
func TestHTMLOfHostileNamesHasTheElementsOfOthers(t *testing.T) {
	named := func(name string) []*Report {
		r := charted(t, "imbalanced")
		r.Job, r.Name, r.Owner, r.PBSJob.Queue = name+"1", name, name, name
		r.Notes, r.DiagMessages = []string{name}, map[string]string{name: name}
		h := r.Hosts["n1"]
		r.Hosts = map[string]*hostapi.HostUsage{name: h, name + "2": r.Hosts["n2"]}
		r.Missing = map[string]string{name + "3": name}
		h.Devices = []hostapi.DeviceUsage{{ID: name, Resource: name, Model: name, UtilizationPercent: ptr(7.0),
			Series: course(map[string]func(float64) float64{hostapi.ColumnUtilizationPercent: level(7, 0.1)})}}
		h.Ranks = []hostapi.RankUsage{{World: name, Rank: 1, Comm: name}}
		return []*Report{r, charted(t, "idle")}
	}
	harmless := named("plain")
	for _, name := range []string{
		`</title><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onload='alert(1)`,
		`</style></svg><a href="javascript:x">`,
		`{{.Job}}<!-- `, "`]]>&lt;script&gt;", "\x1b[2J\u202e\x00\x80evil\u2028",
	} {
		reports := named(name)
		for n := 1; n <= 2; n++ {
			document := htmlOf(t, reports[:n]...)
			must.Equal(t, "elements of "+name, elements(t, htmlOf(t, harmless[:n]...)), elements(t, document))
			if strings.ContainsAny(document, "\x1b\u202e\x00\u2028\ufffd") || !utf8.ValidString(document) {
				t.Errorf("%q is in the document as it is", name)
			}
		}
		linked := bytes.Buffer{}
		must.NoError(t, HTML{JobPath: "jobs/"}.WriteTable(&linked, slices.Values(reports)))
		if !strings.Contains(linked.String(), `<a href="jobs/`) || strings.Contains(linked.String(), `"jobs/<`) {
			t.Errorf("%q: %s", name, linked.String())
		}
	}
}

// Memory ends a job when it is used up. Busy cpus are what the job asked them for.
func TestBarsOfMemoryAreRedAboveNineTenths(t *testing.T) {
	for _, tt := range []struct {
		cput float64
		mem  int64
		want int // red bars
	}{{28800, 9 << 30, 0}, {28800, 143 << 30 / 10, 0}, {28800, 145 << 30 / 10, 1}, {100, 16 << 30, 1}} {
		r := fromRecord(caseRecord("1.srv", "x", func(r *jobstate.Record) {
			r.Hosts["n1"] = caseHost(tt.cput, tt.mem)
		}), begun.Add(time.Hour))
		document := htmlOf(t, r)
		must.Equal(t, fmt.Sprint(tt), tt.want, strings.Count(document, `class="bar bad"`))
	}
}

func TestHTMLOfAThousandHostsIsBounded(t *testing.T) {
	r := charted(t, "imbalanced")
	full := map[string]func(float64) float64{}
	for _, m := range hostMeasures {
		for _, c := range m.columns {
			full[c.name] = level(0.7, 0.3)
		}
	}
	r.Hosts = map[string]*hostapi.HostUsage{}
	for i := range 1000 {
		h := caseHost(20000+float64(i), 12<<30)
		h.Series = course(full)
		h.Devices = []hostapi.DeviceUsage{{ID: fmt.Sprint("GPU-", i), UtilizationPercent: ptr(float64(i % 100)),
			Series: h.Series}}
		r.Hosts[fmt.Sprintf("node%04d", i)] = h
	}
	document := htmlOf(t, r)
	if len(document) > 500<<10 {
		t.Errorf("%d KiB", len(document)>>10)
	}
	for _, want := range []string{"the greatest, the median and the least of 1000 hosts", "median <i>", "1000 more"} {
		if !strings.Contains(document, want) {
			t.Errorf("no %q", want)
		}
	}
}

// A document has the elements of the templates alone, whatever its file holds.
func FuzzDocumentOfAnyReport(f *testing.F) {
	archives, err := filepath.Glob(filepath.Join("testdata", "cases", "*.archive.json"))
	must.NoError(f, err)
	for _, name := range archives {
		text, err := os.ReadFile(name)
		must.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"job":"1","start":"0001-01-01T00:00:00Z","hosts":{"<b>":{"ncpus":-1,"mem_limit_bytes":-7,` +
		`"series":{"times":[1,9223372036854775807],"columns":{"cpu":[1e308,null],"rss_bytes":[-1,5e-324]}}}}}`))
	known := strings.Fields("html head meta title style body main header h1 h2 p section dl dt dd span svg rect line " +
		"text path g figure figcaption b i code small details summary")
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := FromArchive(text)
		if err != nil {
			return
		}
		for _, e := range elements(t, htmlOf(t, r)) {
			if name, _, _ := strings.Cut(e, " "); !slices.Contains(known, name) {
				t.Errorf("<%s>", e)
			}
		}
	})
}

func BenchmarkHTML(b *testing.B) {
	archive, err := os.ReadFile(filepath.Join("testdata", "cases", "imbalanced.archive.json"))
	must.NoError(b, err)
	r, err := FromArchive(archive)
	must.NoError(b, err)
	for host, columns := range courses["imbalanced"] {
		r.Hosts[host].Series = course(columns)
	}
	for b.Loop() {
		must.NoError(b, HTML{}.WriteReport(io.Discard, r))
	}
}
