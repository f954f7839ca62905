package pbs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestParseExecVnode(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []VnodeChunk
		err        string
	}{
		// exec_vnode of jobs that OpenPBS 23.06.06 ran.
		{name: "captured", text: "(pbshost:ncpus=1:mem=102400kb)",
			want: []VnodeChunk{{Vnode: "pbshost", Host: "pbshost", Resources: res{"ncpus": "1", "mem": "102400kb"}}}},
		{name: "captured two chunks", text: "(pbshost:ncpus=1:mem=61440kb)+(pbshost:ncpus=1:mem=71680kb)",
			want: []VnodeChunk{
				{Vnode: "pbshost", Host: "pbshost", Resources: res{"ncpus": "1", "mem": "61440kb"}},
				{Vnode: "pbshost", Host: "pbshost", Resources: res{"ncpus": "1", "mem": "71680kb"}, Chunk: 1},
			}},

		{name: "a chunk of several vnodes", text: "(h:ncpus=1:mem=61440kb)+(h[1]:ncpus=1+h[12]:mem=5kb+h[2])",
			want: []VnodeChunk{
				{Vnode: "h", Host: "h", Resources: res{"ncpus": "1", "mem": "61440kb"}},
				{Vnode: "h[1]", Host: "h", Resources: res{"ncpus": "1"}, Chunk: 1},
				{Vnode: "h[12]", Host: "h", Resources: res{"mem": "5kb"}, Chunk: 1},
				{Vnode: "h[2]", Host: "h", Resources: res{}, Chunk: 1},
			}},
		{name: "no parentheses", text: "h:ncpus=1+g:ncpus=2",
			want: []VnodeChunk{
				{Vnode: "h", Host: "h", Resources: res{"ncpus": "1"}},
				{Vnode: "g", Host: "g", Resources: res{"ncpus": "2"}, Chunk: 1},
			}},
		{name: "whole name", text: "(n1.cluster.example:ncpus=1)",
			want: []VnodeChunk{
				{Vnode: "n1.cluster.example", Host: "n1.cluster.example", Resources: res{"ncpus": "1"}},
			}},
		{name: "not an index", text: "(a[x]:ncpus=1)",
			want: []VnodeChunk{{Vnode: "a[x]", Host: "a[x]", Resources: res{"ncpus": "1"}}}},
		{name: "quotes", text: `(h:note="a+(b):c")`,
			want: []VnodeChunk{{Vnode: "h", Host: "h", Resources: res{"note": "a+(b):c"}}}},

		{name: "empty", text: "", err: "exec_vnode: vnode : not a vnode name"},
		{name: "nothing inside", text: "()", err: "exec_vnode: vnode : not a vnode name"},
		{name: "not closed", text: "(h:ncpus=1", err: "exec_vnode (h:ncpus=1: unbalanced parentheses"},
		{name: "not opened", text: "h:ncpus=1)", err: "exec_vnode part h:ncpus=1): unbalanced parentheses"},
		{name: "opened twice", text: "(h:ncpus=1+(g:ncpus=1)",
			err: "exec_vnode part (g:ncpus=1): unbalanced parentheses"},
		{name: "nested", text: "((h:ncpus=1))", err: "exec_vnode: vnode (h: not a vnode name"},
		{name: "no plus", text: "(h:ncpus=1)(g:ncpus=1)",
			err: "exec_vnode: vnode h: resource ncpus=1)(g: a value with quotes or parentheses has to be quoted"},
		{name: "trailing plus", text: "(h:ncpus=1)+", err: "exec_vnode: vnode : not a vnode name"},
		{name: "resource for a vnode", text: "(ncpus=1)", err: "exec_vnode: vnode ncpus=1: not a vnode name"},
		{name: "no value", text: "(h:ncpus)", err: "exec_vnode: vnode h: ncpus is not a resource"},
		{name: "twice", text: "(h:ncpus=1:ncpus=2)", err: "exec_vnode: vnode h: resource ncpus=2: given twice"},
		{name: "newline", text: "(h\n:ncpus=1)", err: `exec_vnode: vnode "h\n": not a vnode name`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseExecVnode(tt.text)
			if message(err) != tt.err {
				t.Errorf("ParseExecVnode(%q): error %q, want %q", tt.text, message(err), tt.err)
			}
			must.Equal(t, fmt.Sprintf("ParseExecVnode(%q)", tt.text), tt.want, got)
		})
	}
}

func TestParseExecVnodeBoundsItsInput(t *testing.T) {
	for name, text := range map[string]string{
		"text":  strings.Repeat("a", maxText+1),
		"parts": strings.Repeat("(h)+", maxChunks) + "(h)",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseExecVnode(text)
			if err == nil {
				t.Fatal("no error")
			}
			checkOneLine(t, err)
		})
	}
}

func TestPlaceOnOneHost(t *testing.T) {
	for _, tt := range []struct{ name, sel, want string }{
		// The pairs of schedselect and exec_vnode that OpenPBS 23.06.06 wrote.
		{"captured", "1:ncpus=1:mem=100mb", "(pbshost:ncpus=1:mem=102400kb)"},
		{"captured two cpus", "1:ncpus=2:mem=200mb", "(pbshost:ncpus=2:mem=204800kb)"},
		{"captured array job", "1:ncpus=1:mem=30mb", "(pbshost:ncpus=1:mem=30720kb)"},
		{"captured two chunks", "1:ncpus=1:mem=60mb+1:ncpus=1:mem=70mb",
			"(pbshost:ncpus=1:mem=61440kb)+(pbshost:ncpus=1:mem=71680kb)"},

		{"count", "3:ncpus=1", "(pbshost:ncpus=1)+(pbshost:ncpus=1)+(pbshost:ncpus=1)"},
		{"rounded up", "mem=1025", "(pbshost:mem=2kb)"},
		{"site's own", `ncpus=1:scratch=10gb:note="a+b"`, `(pbshost:ncpus=1:note="a+b":scratch=10gb)`},
		{"no resources", "1", "(pbshost)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chunks, err := ParseSelect(tt.sel)
			must.NoError(t, err)
			if got := Place("pbshost", chunks); got != tt.want {
				t.Errorf("Place(%q) = %q, want %q", tt.sel, got, tt.want)
			}
		})
	}
}

func TestOnHost(t *testing.T) {
	size := func(s Size) *Size { return &s }
	for _, tt := range []struct {
		name, text, host string
		want             HostShare
		err              string
	}{
		{name: "captured", text: "(pbshost:ncpus=1:mem=61440kb)+(pbshost:ncpus=1:mem=71680kb)", host: "pbshost",
			want: HostShare{NCPUs: 2, Mem: size(130 << 20)}},
		{name: "one of two hosts", text: "(a:ncpus=1:mem=1kb)+(b:ncpus=4:vmem=2kb:hpmem=0kb:ngpus=2)", host: "b",
			want: HostShare{NCPUs: 4, Vmem: size(2048), HPMem: size(0), NGPUs: 2}},
		{name: "indexed vnodes", text: "(h[0]:ncpus=2:mem=1gb+h[11]:ncpus=1)+(hh[0]:ncpus=9)", host: "h",
			want: HostShare{NCPUs: 3, Mem: size(1 << 30)}},
		{name: "one indexed vnode", text: "(h[0]:ncpus=2+h[1]:ncpus=1)", host: "h[1]", want: HostShare{NCPUs: 1}},
		{name: "short vnode, long host", text: "(n1:ncpus=1)+(n2:ncpus=2)", host: "n2.cluster",
			want: HostShare{NCPUs: 2}},
		{name: "long vnode, short host", text: "(n1.cluster[0]:ncpus=1)+(n2.cluster:ncpus=2)", host: "n1",
			want: HostShare{NCPUs: 1}},
		{name: "exact before short", text: "(n1:ncpus=1)+(n1.other:ncpus=2)", host: "n1", want: HostShare{NCPUs: 1}},
		{name: "same short name, other domain", text: "(n1.a:ncpus=1)", host: "n1.b",
			err: "exec_vnode on n1.b: no chunk on this host"},
		{name: "addresses", text: "(10.0.0.1:ncpus=1)", host: "10.0.0.2",
			err: "exec_vnode on 10.0.0.2: no chunk on this host"},
		{name: "no cpus", text: "(h:mem=5kb)", host: "h", want: HostShare{Mem: size(5 << 10)}},
		{name: "memory not asked for", text: "(h:ncpus=1:mem=0kb)", host: "h", want: HostShare{NCPUs: 1}},
		{name: "others",
			text: "(h:mpiprocs=2:scratch=1gb:tape=1:os=a)+(h:mpiprocs=3:scratch=512mb:tape=2:os=b)+(h:os=a)", host: "h",
			want: HostShare{Other: res{"mpiprocs": "5", "scratch": "1536mb", "tape": "3", "os": "a,b"}}},
		{name: "parts of a thing",
			text: "(h:fpga=0.5:os=1.2.3:end=inf)+(h:fpga=0.5:os=1.2.3:end=inf)+(h:fpga=1)", host: "h",
			want: HostShare{Other: res{"fpga": "2", "os": "1.2.3", "end": "inf"}}},
		{name: "elsewhere", text: "(a:ncpus=1)", host: "b", err: "exec_vnode on b: no chunk on this host"},
		{name: "bad count", text: "(a[0]:ncpus=x)", host: "a",
			err: "exec_vnode a[0]: resource ncpus=x: not a whole number"},
		{name: "bad size", text: "(a:mem=much)", host: "a", err: "exec_vnode a: resource mem=much: not a size"},
		{name: "bad value of another host", text: "(a:mem=much)+(b:ncpus=1)", host: "b", want: HostShare{NCPUs: 1}},
		{name: "overflow", text: "(a:mem=8191pb)+(a:mem=8191pb)", host: "a",
			err: "exec_vnode a: resource mem=8191pb: the sum is too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chunks, err := ParseExecVnode(tt.text)
			must.NoError(t, err)
			got, err := OnHost(chunks, tt.host)
			if message(err) != tt.err {
				t.Errorf("error %q, want %q", message(err), tt.err)
			}
			must.Equal(t, "OnHost", tt.want, got)
		})
	}
	if _, err := OnHost(nil, "h"); !errors.Is(err, ErrNotOnHost) {
		t.Errorf("OnHost of nothing: %v, want ErrNotOnHost", err)
	}
}

// formatVnodeChunks writes each chunk in parentheses.
func formatVnodeChunks(chunks []VnodeChunk) string {
	var parts []string
	for _, c := range chunks {
		part := c.Vnode
		for _, name := range names(c.Resources) {
			part += ":" + name + "=" + quoted(c.Resources[name])
		}
		if c.Chunk < len(parts) {
			parts[c.Chunk] += "+" + part
		} else {
			parts = append(parts, part)
		}
	}
	return "(" + strings.Join(parts, ")+(") + ")"
}

func FuzzParseExecVnode(f *testing.F) {
	for _, seed := range []string{
		"(pbshost:ncpus=1:mem=61440kb)+(pbshost:ncpus=1:mem=71680kb)", "(h[1]:ncpus=1+h[2]:mem=5kb)", "h",
		`(h:note="a+(b)")`, "((", "(a)+(",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		chunks, err := ParseExecVnode(text)
		if err != nil {
			if chunks != nil {
				t.Errorf("ParseExecVnode(%q) = %v with an error", text, chunks)
			}
			checkOneLine(t, err)
			return
		}
		formatted := formatVnodeChunks(chunks)
		again, err := ParseExecVnode(formatted)
		if err != nil {
			t.Fatalf("%q -> %q: %v", text, formatted, err)
		}
		must.Equal(t, fmt.Sprintf("%q -> %q (-first +second)", text, formatted), chunks, again)
		if _, err := OnHost(chunks, chunks[0].Host); errors.Is(err, ErrNotOnHost) {
			t.Errorf("OnHost(%q, %q): %v", text, chunks[0].Host, err)
		}
	})
}

// FuzzSelectToHost checks that what select asks for is what a host that gets all of it is given.
func FuzzSelectToHost(f *testing.F) {
	f.Add("2:ncpus=1:mem=64mb+1:ncpus=4:ngpus=1")
	f.Add("mem=1025")
	f.Fuzz(func(t *testing.T, spec string) {
		req, err := ParseResourceList("select=" + spec)
		if err != nil {
			return
		}
		chunks, err := ParseExecVnode(Place("h", req.Select))
		if err != nil {
			t.Fatalf("%q -> %q: %v", spec, Place("h", req.Select), err)
		}
		share, err := OnHost(chunks, "h")
		if err != nil {
			return // rounding up to kb can pass the largest size
		}
		if strconv.Itoa(share.NCPUs) != req.Job["ncpus"] {
			t.Errorf("%q: ncpus %d on the host, %s in the request", spec, share.NCPUs, req.Job["ncpus"])
		}
		asked, _ := ParseSize(req.Job["mem"])
		if asked > 0 && (share.Mem == nil || *share.Mem < asked) {
			t.Errorf("%q: mem %v on the host, %v in the request", spec, share.Mem, asked)
		}
	})
}
