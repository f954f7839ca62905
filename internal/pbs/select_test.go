package pbs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

type res = map[string]string

func TestParseSelect(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []Chunk
		err        string
	}{
		// schedselect of jobs that OpenPBS 23.06.06 ran.
		{name: "captured", text: "1:ncpus=2:mem=200mb", want: []Chunk{{1, res{"ncpus": "2", "mem": "200mb"}}}},
		{name: "captured two chunks", text: "1:ncpus=1:mem=60mb+1:ncpus=1:mem=70mb",
			want: []Chunk{{1, res{"ncpus": "1", "mem": "60mb"}}, {1, res{"ncpus": "1", "mem": "70mb"}}}},
		{name: "captured array job", text: "1:ncpus=1:mem=30mb", want: []Chunk{{1, res{"ncpus": "1", "mem": "30mb"}}}},

		{name: "no count", text: "ncpus=4", want: []Chunk{{1, res{"ncpus": "4"}}}},
		{name: "only a count", text: "3", want: []Chunk{{3, res{}}}},
		{name: "mixed", text: "2:ncpus=1:mem=64mb+1:ncpus=4",
			want: []Chunk{{2, res{"ncpus": "1", "mem": "64mb"}}, {1, res{"ncpus": "4"}}}},
		{name: "no cpu", text: "ncpus=0", want: []Chunk{{1, res{"ncpus": "0"}}}},
		{name: "site's own", text: "scratch=10gb:x-y_1=true",
			want: []Chunk{{1, res{"scratch": "10gb", "x-y_1": "true"}}}},
		{name: "double quotes", text: `ncpus=1:note="a+b:c=d,(e) it's"`,
			want: []Chunk{{1, res{"ncpus": "1", "note": "a+b:c=d,(e) it's"}}}},
		{name: "single quotes", text: `note='say "x"'`, want: []Chunk{{1, res{"note": `say "x"`}}}},
		{name: "empty quotes", text: `note=""`, want: []Chunk{{1, res{"note": ""}}}},
		{name: "spaces", text: " 2 : ncpus = 1 + mem = 5mb ",
			want: []Chunk{{2, res{"ncpus": "1"}}, {1, res{"mem": "5mb"}}}},
		{name: "no case in names", text: "NCPUS=3:Mem=1GB:Foo=1",
			want: []Chunk{{1, res{"ncpus": "3", "mem": "1GB", "Foo": "1"}}}},
		{name: "most chunks", text: "100000:ncpus=1", want: []Chunk{{100000, res{"ncpus": "1"}}}},

		{name: "too many chunks", text: "1000000000:ncpus=1",
			err: "select: chunk 1000000000:ncpus=1: more than 100000 chunks"},
		{name: "too many chunks together", text: "99999+2", err: "select 99999+2: more than 100000 chunks"},
		{name: "count beyond int", text: "99999999999999999999",
			err: "select: chunk 99999999999999999999: more than 100000 chunks"},
		{name: "no chunks", text: "0:ncpus=1", err: "select: chunk 0:ncpus=1: want at least 1 chunk"},
		{name: "empty", text: "", err: "select: a resource is missing"},
		{name: "empty chunk", text: "ncpus=1+", err: "select: a resource is missing"},
		{name: "empty resource", text: "2:", err: "select: a resource is missing"},
		{name: "no value", text: "ncpus", err: "select: resource ncpus: no value"},
		{name: "empty value", text: "ncpus=", err: "select: resource ncpus=: no value"},
		{name: "no name", text: "=5", err: "select: resource =5: not a resource name"},
		{name: "bad name", text: "1x=5", err: "select: resource 1x=5: not a resource name"},
		{name: "path for a name", text: "../x=5", err: "select: resource ../x=5: not a resource name"},
		{name: "twice", text: "ncpus=1:ncpus=2", err: "select: resource ncpus=2: given twice in a chunk"},
		{name: "twice in two cases", text: "ncpus=1:NCPUS=2", err: "select: resource ncpus=2: given twice in a chunk"},
		{name: "bad size", text: "1:mem=banana", err: "select: resource mem=banana: not a size"},
		{name: "no memory", text: "mem=0kb", err: "select: resource mem=0kb: not more than 0"},
		{name: "negative cpus", text: "ncpus=-1", err: "select: resource ncpus=-1: not a whole number"},
		{name: "half a cpu", text: "ncpus=0.5", err: "select: resource ncpus=0.5: not a whole number"},
		{name: "too many cpus", text: "ncpus=2147483648", err: "select: resource ncpus=2147483648: too large"},
		{name: "job-wide", text: "ncpus=1:walltime=10", err: "select: resource walltime=10: not allowed in select"},
		{name: "nested", text: "select=1", err: "select: resource select=1: not allowed in select"},
		{name: "open quote", text: `a="b`, err: `select a="b: unbalanced quotes`},
		{name: "text after quote", text: `a="b"c`, err: `select: resource a="b"c: unbalanced quotes`},
		{name: "quote inside", text: `a=b"c"`,
			err: `select: resource a=b"c": a value with quotes or parentheses has to be quoted`},
		{name: "newline", text: "a=b\nc", err: `select: resource a="b\nc": control character in the value`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseSelect(tt.text)
			if message(err) != tt.err {
				t.Errorf("ParseSelect(%q): error %q, want %q", tt.text, message(err), tt.err)
			}
			must.Equal(t, fmt.Sprintf("ParseSelect(%q)", tt.text), tt.want, got)
		})
	}
}

func TestParseSelectBoundsItsInput(t *testing.T) {
	for name, text := range map[string]string{
		"text":   strings.Repeat("a", maxText+1),
		"chunks": strings.Repeat("1+", maxChunks) + "1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSelect(text)
			if err == nil {
				t.Fatal("no error")
			}
			checkOneLine(t, err)
		})
	}
}

func TestFormatSelect(t *testing.T) {
	chunks := []Chunk{
		{1, res{"mem": "60mb", "ncpus": "1"}},
		{2, res{"zeta": "a b", "arch": "linux", "mem": "1kb", "note": `say "x"`}},
		{3, nil},
	}
	want := `1:ncpus=1:mem=60mb+2:mem=1kb:arch=linux:note='say "x"':zeta="a b"+3`
	if got := FormatSelect(chunks); got != want {
		t.Errorf("FormatSelect = %q, want %q", got, want)
	}
}

func FuzzParseSelect(f *testing.F) {
	for _, seed := range []string{
		"1:ncpus=1:mem=60mb+1:ncpus=1:mem=70mb", "3", `ncpus=1:note="a+b:c"`, `note='say "x"'`, " 2 : ncpus = 1 ",
		"1000000000:ncpus=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		chunks, err := ParseSelect(text)
		if err != nil {
			if chunks != nil {
				t.Errorf("ParseSelect(%q) = %v with an error", text, chunks)
			}
			checkOneLine(t, err)
			return
		}
		formatted := FormatSelect(chunks)
		again, err := ParseSelect(formatted)
		if err != nil {
			t.Fatalf("%q -> %q: %v", text, formatted, err)
		}
		must.Equal(t, fmt.Sprintf("%q -> %q (-first +second)", text, formatted), chunks, again)
	})
}

func TestAsksSumsTheChunks(t *testing.T) {
	chunks, err := ParseSelect(`2:ncpus=2:mem=1gb:fpga=1:model=A:hosts=1.5+1:ncpus=1:mem=512mb:model=A:kind=x`)
	must.NoError(t, err)
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"ncpus", "5", true}, {"ncpus", "2", false}, {"mem", "2560mb", true}, {"mem", "2621440kb", true},
		{"mem", "1gb", false},
		{"fpga", "2", true}, {"fpga", "1", false}, {"model", "A", true}, {"model", "B", false}, {"model", "2", false},
		{"kind", "x", true},
		{"kind", "", false}, {"hosts", "1.5", true}, {"vmem", "0", false}, {"vmem", "1gb", false},
		{"other", "x", false}, {"", "", false},
		{"ncpus", "99999999999", false}, {"mem", "9223372036854775807", false},
	} {
		if got := Asks(chunks, tt.name, tt.value); got != tt.want {
			t.Errorf("%s=%s: %v", tt.name, tt.value, got)
		}
	}
	if Asks(nil, "ncpus", "0") {
		t.Error("no chunks ask for something")
	}
}
