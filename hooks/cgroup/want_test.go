package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
)

// wanted writes wants as "2 ngpus nvidia [A100] 40..80", with memory in GB.
func wanted(wants []placement.Want, blocks int) string {
	var words []string
	for _, w := range wants {
		text := fmt.Sprintf("%d %s", w.Count, w.Resource)
		if w.Vendor != "" {
			text += " " + w.Vendor
		}
		if len(w.Models) > 0 {
			text += fmt.Sprint(" ", w.Models)
		}
		if w.MinMemory+w.MaxMemory > 0 {
			text += fmt.Sprintf(" %d..%d", w.MinMemory>>30, w.MaxMemory>>30)
		}
		words = append(words, text)
	}
	if blocks > 0 {
		words = append(words, fmt.Sprintf("%d blocks", blocks))
	}
	return strings.Join(words, "; ")
}

func TestWantsOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		exec string
		sel  string // schedselect
		list hostapi.Resources
		node string // "" means n1
		want string
		err  string
	}{
		{name: "none", exec: "(n1:ncpus=1)", want: ""},
		{name: "none of any", exec: "(n1:ncpus=1:ngpus=0:fpga=0:blocks=0)", want: ""},
		{name: "GPUs", exec: "(n1:ncpus=1:ngpus=2)", want: "2 ngpus"},
		{name: "summed", exec: "(n1:ngpus=2)+(n2:ngpus=4)+(n1:ngpus=1)", want: "3 ngpus"},
		{name: "of the host's vnodes", exec: "(n1[0]:ngpus=2+n1[1]:ngpus=1)+(n10:ngpus=9)", want: "3 ngpus"},
		{name: "short vnode, long host", exec: "(n1:ngpus=1)", node: "n1.cluster", want: "1 ngpus"},
		{name: "long vnode, short host", exec: "(n1.cluster:ngpus=1)", want: "1 ngpus"},
		{name: "its own name before a short one", exec: "(n1:ngpus=1)+(n1.other:ngpus=2)", want: "1 ngpus"},
		{name: "configured", exec: "(n1:fpga=1:ngpus=1)+(n1:fpga=2)", want: "3 fpga; 1 ngpus"},
		{name: "a resource of the site", exec: "(n1:tape=1)", want: ""},
		{name: "blocks", exec: "(n1:blocks=1)+(n1:blocks=2)+(n2:blocks=4)", want: "3 blocks"},
		{name: "nmics are none", exec: "(n1:nmics=2)", want: ""},
		{name: "a job without chunks",
			list: hostapi.Resources{"ngpus": "2", "gpu_model": "A100", "blocks": "1", "fpga": "1"},
			want: "1 fpga; 2 ngpus [A100]; 1 blocks"},

		{name: "of the job's own list", exec: "(n1:ncpus=1)", sel: "1:ncpus=1",
			list: hostapi.Resources{"gpus": "nvidia:A100"},
			want: "1 ngpus nvidia [A100]"},
		{name: "of the job's own list, for all chunks", exec: "(n1:ngpus=1)+(n1:ngpus=1)", sel: "2:ngpus=1",
			list: hostapi.Resources{"gpu_model": "A100"},
			want: "2 ngpus [A100]"},
		{name: "of the job's own list, for which chunk", exec: "(n1:ncpus=1)+(n1:ncpus=1)", sel: "2:ncpus=1",
			list: hostapi.Resources{"gpus": "A100"},
			err:  "resource gpus=A100: the job has 2 chunks: ask for it in select"},
		{name: "model", exec: "(n1:ngpus=2:gpu_model=A100)", want: "2 ngpus [A100]"},
		{name: "models", exec: `(n1:ngpus=2:gpu_model="A100,H100 NVL")`, want: "2 ngpus [A100 H100 NVL]"},
		{name: "memory is at least that", exec: "(n1:ngpus=1:gpu_mem=40gb)", want: "1 ngpus 40..0"},
		{name: "memory of nothing", exec: "(n1:ngpus=1:gpu_mem=0)", want: "1 ngpus"},
		{name: "they only choose the node", exec: "(n1:gpu_model=A100:gpu_mem=40gb)", want: ""},
		{name: "equal ones are one",
			exec: "(n1:ngpus=1:gpu_model=A100)+(n1:ngpus=2:gpu_model=a100)+(n1:ngpus=1:gpu_model=T4)",
			want: "3 ngpus [A100]; 1 ngpus [T4]"},

		{name: "in schedselect", exec: "(n1:ncpus=1:ngpus=1)+(n1:ngpus=2)",
			sel:  "1:ncpus=1:ngpus=1:gpu_model=A100+1:ngpus=2:gpu_model=H100",
			want: "1 ngpus [A100]; 2 ngpus [H100]"},
		{name: "with counts", exec: "(n2:ngpus=1)+(n1:ngpus=1)+(n1:ngpus=2)",
			sel:  "2:ngpus=1:gpu_model=A100+1:ngpus=2:gpu_mem=80gb",
			want: "1 ngpus [A100]; 2 ngpus 80..0"},
		{name: "a chunk of several vnodes", exec: "(n1[0]:ngpus=1+n1[1]:ngpus=1)+(n1[1]:ngpus=1)",
			sel:  "1:ngpus=2:gpu_model=A100+1:ngpus=1",
			want: "2 ngpus [A100]; 1 ngpus"},
		{name: "in select", exec: "(n1:ngpus=1)", list: hostapi.Resources{"select": "1:ngpus=1:gpu_model=A100"},
			want: "1 ngpus [A100]"},
		{name: "of the whole job", exec: "(n1:ngpus=1)", list: hostapi.Resources{"gpu_model": "A100"},
			want: "1 ngpus [A100]"},
		{name: "all chunks alike", exec: "(n1:ngpus=1)+(n1:ngpus=1)", sel: "3:ngpus=1:gpu_model=A100",
			want: "2 ngpus [A100]"},
		{name: "other chunks than schedselect", exec: "(n1:ngpus=1)", sel: "1:ngpus=1:gpu_model=A100+1:ngpus=1",
			err: "schedselect has 2 chunks and exec_vnode 1: the GPUs of each chunk are not known"},
		{name: "schedselect of others", exec: "(n1:ncpus=1)", sel: "1:ncpus=1:walltime=x", want: ""},
		{name: "no select", exec: "(n1:ngpus=1)", sel: "1:ngpus=1:gpu_model=",
			err: "schedselect: select: resource gpu_model=: no value"},

		{name: "list", exec: `(n1:gpus="nvidia:A100,H100:40GB..80GB:2")`, want: "2 ngpus nvidia [A100 H100] 40..80"},
		{name: "list in schedselect", exec: "(n1:ncpus=1)+(n1:ncpus=1)", sel: `2:ncpus=1:gpus="nvidia:A100"`,
			want: "2 ngpus nvidia [A100]"},
		{name: "once for a chunk of several vnodes", exec: "(n1[0]:ncpus=1+n1[1]:ncpus=1)",
			sel:  `1:ncpus=2:gpus="amd::64gb:2"`,
			want: "2 ngpus amd 64..64"},
		{name: "several", exec: `(n1:gpus="nvidia:A100::2+amd:*:..64gb+:::3")`,
			want: "2 ngpus nvidia [A100]; 1 ngpus amd 0..64; 3 ngpus"},
		{name: "vendor only", exec: "(n1:gpus=Intel)", want: "1 ngpus intel"},
		{name: "a card", exec: `(n1:gpus="tenstorrent:n300:24gb:2")`, want: "2 ngpus tenstorrent [n300] 24..24"},
		{name: "a TPU", exec: `(n1:gpus="TPU:v6e::4")`, want: "4 ngpus tpu [v6e]"},
		{name: "none of it", exec: `(n1:gpus="nvidia:::0")`, want: ""},
		{name: "says what ngpus are", exec: `(n1:ngpus=4:gpus="nvidia:A100")`, want: "4 ngpus nvidia [A100]"},
		{name: "says what some ngpus are", exec: `(n1:ngpus=4:gpu_mem=40gb:gpus="nvidia:A100::1")`,
			want: "1 ngpus nvidia [A100]; 3 ngpus 40..0"},
		{name: "the rest of ngpus", exec: `(n1:ngpus=4:gpus="nvidia:A100::1+:H100")`,
			want: "1 ngpus nvidia [A100]; 3 ngpus [H100]"},
		{name: "a count", exec: "(n1:gpus=2)+(n1:gpus=1)", want: "3 ngpus"},
		{name: "a count of each vnode", exec: "(n1[0]:gpus=1+n1[1]:gpus=2)", sel: "1:gpus=3", want: "3 ngpus"},
		{name: "a count in schedselect", exec: "(n1:ncpus=1)", sel: "1:ncpus=1:gpus=2", want: "2 ngpus"},
		{name: "a count of some ngpus", exec: "(n1:ngpus=3:gpus=2:gpu_model=A100)", want: "2 ngpus; 1 ngpus [A100]"},
		{name: "a count of nothing", exec: "(n1:gpus=0)", want: ""},
		{name: "a count that is too large", exec: "(n1:gpus=99999999999)",
			err: "resource gpus=99999999999: vendor 99999999999 is none of " +
				"nvidia, amd, intel, habana, tpu, tenstorrent"},
		{name: "default_chunk", exec: `(n1:ngpus=0:gpus="nvidia:A100::2")`, want: "2 ngpus nvidia [A100]"},
		{name: "more than ngpus", exec: `(n1:ngpus=2:gpus="nvidia:A100::3")`,
			err: "resource gpus=nvidia:A100::3: these add up to 3, but ngpus is 2"},
		{name: "open ones more than ngpus", exec: `(n1:ngpus=1:gpus="nvidia+amd")`,
			err: "resource gpus=nvidia+amd: these add up to 2, but ngpus is 1"},

		{name: "negative", exec: "(n1:ngpus=-1)", err: "vnode n1: resource ngpus=-1: not a whole number"},
		{name: "not a number", exec: "(n1:fpga=True)", err: "vnode n1: resource fpga=True: not a whole number"},
		{name: "huge", exec: "(n1:blocks=99999999999)", err: "vnode n1: resource blocks=99999999999: too large"},
		{name: "of another host", exec: "(n2:ngpus=-1)+(n1:ngpus=1)", want: "1 ngpus"},
		{name: "bad memory", exec: "(n1:ngpus=1:gpu_mem=much)", err: "resource gpu_mem=much: not a size such as 40gb"},
		{name: "bad model", list: hostapi.Resources{"ngpus": "1", "gpu_model": "A\x07"},
			err: `resource gpu_model="A\a": "A\a" is not a model`},
		{name: "bad vendor", exec: "(n1:gpus=A100)",
			err: "resource gpus=A100: vendor A100 is none of nvidia, amd, intel, habana, tpu, tenstorrent"},
		{name: "count in the place of memory", exec: `(n1:gpus="nvidia:A100:2")`,
			err: "resource gpus=nvidia:A100:2: memory 2: not a size such as 40gb"},
		{name: "bad range", exec: `(n1:gpus="::80gb..40gb")`,
			err: "resource gpus=::80gb..40gb: memory 80gb..40gb: the first is larger than the second"},
		{name: "no ends", exec: `(n1:gpus="::..")`, err: "resource gpus=::..: memory ..: not a size such as 40gb"},
		{name: "to nothing", exec: `(n1:gpus="::..0gb")`,
			err: "resource gpus=::..0gb: memory ..0gb: not a size such as 40gb"},
		{name: "bad count", exec: `(n1:gpus=":::-2")`, err: "resource gpus=:::-2: count -2: not a whole number"},
		{name: "too many fields", exec: `(n1:gpus="nvidia:A100:40gb:2:x")`,
			err: "resource gpus=nvidia:A100:40gb:2:x: more than vendor:models:memory:count"},
		{name: "empty item", exec: `(n1:gpus="nvidia++amd")`, err: "resource gpus=nvidia++amd: an empty item"},
		{name: "empty model", exec: `(n1:gpus="nvidia:A100,")`, err: "resource gpus=nvidia:A100,:  is not a model"},
		{name: "many models", exec: `(n1:gpus=":` + strings.Repeat("a,", 40) + `a")`,
			err: "resource gpus=:" + strings.Repeat("a,", 31) + "a...: more than 32 models"},
		{name: "long", exec: "(n1:gpus=" + strings.Repeat("a", 5000) + ")",
			err: "resource gpus=" + strings.Repeat("a", 64) + "...: longer than 4096 bytes"},
		{name: "many items", exec: `(n1:gpus="` + strings.Repeat(":+", 65) + `:")`,
			err: "resource gpus=" + strings.Repeat(":+", 32) + "...: more than 64 items"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := &hostapi.Job{ExecVnode: tt.exec, Schedselect: tt.sel, ResourceList: tt.list}
			node := "n1"
			if tt.node != "" {
				node = tt.node
			}
			a := ask{chunks: chunksOf(t, job, node)}
			a.here = pbs.ChunksHere(a.chunks, node, false)
			err := a.addWants(job, []string{"fpga", "ngpus"})
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got := wanted(a.wants, a.blocks); got != tt.want || text != tt.err {
				t.Errorf("%s, error %s\nwant %s, %s", got, text, tt.want, tt.err)
			}
		})
	}
}

// chunksOf returns the chunks that askOf gets from the job.
func chunksOf(t testing.TB, job *hostapi.Job, node string) []pbs.VnodeChunk {
	t.Helper()
	if job.ExecVnode == "" {
		return []pbs.VnodeChunk{{Vnode: node, Host: node, Resources: job.ResourceList}}
	}
	chunks, err := pbs.ParseExecVnode(job.ExecVnode)
	must.NoError(t, err)
	return chunks
}

// wantsOfAll returns the wants of a job that is on one host.
func wantsOfAll(t *testing.T, job *hostapi.Job) ([]placement.Want, error) {
	t.Helper()
	chunks := chunksOf(t, job, "n1")
	return wantsOf(chunks, pbs.ChunksHere(chunks, "n1", true), job, nil)
}

func TestWantsAreBounded(t *testing.T) {
	var parts []string
	for i := range 100 {
		parts = append(parts, fmt.Sprintf("(n1:ngpus=1:gpu_model=A%d)", i))
	}
	job := &hostapi.Job{ExecVnode: strings.Join(parts, "+")}
	wants, err := wantsOfAll(t, job)
	if err == nil || err.Error() != "resource ngpus=1: a job may request at most 64 kinds of devices" {
		t.Errorf("%d wants, %v", len(wants), err)
	}
}

// A text is parsed once, and not for each of thousands of chunks that have it.
func TestEqualAsksAreOne(t *testing.T) {
	text := `gpus="` + strings.Repeat("nvidia:A100,H100::1+", 3) + `amd"`
	job := &hostapi.Job{
		ExecVnode:   strings.Repeat("(n1:ncpus=1:ngpus=4)+", 999) + "(n1:ncpus=1:ngpus=5)",
		Schedselect: "999:ncpus=1:ngpus=4:" + text + "+1:ngpus=5:" + text,
	}
	var asks []*gpuAsk
	for i := range 1000 {
		asks = append(asks, &gpuAsk{chunk: i, ngpus: 4 + i/999, texts: map[string]string{"gpus": text}})
	}
	if got := equalAsks(asks); len(got) != 2 || got[0].times != 999 || got[1].times != 1 || got[1].ngpus != 5 {
		t.Errorf("%d kinds of chunks: %+v", len(got), got)
	}
	wants, err := wantsOfAll(t, job)
	if got, want := wanted(wants, 0), "3000 ngpus nvidia [A100 H100]; 1001 ngpus amd"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestMicsNote(t *testing.T) {
	notes := map[string]string{"": "", "0": "", "2": "nmics=2 is ignored: hookhost does not support such devices"}
	for value, want := range notes {
		if got := micsNote(map[string]string{"nmics": value}); got != want {
			t.Errorf("nmics=%s: %q, want %q", value, got, want)
		}
	}
}

func FuzzWantsOf(f *testing.F) {
	seeds := []string{"nvidia:A100,H100:40GB..80GB:2", ":::+amd:*:..64gb", "nvidia:::0", "::1gb..:3", "x", "+"}
	for _, seed := range seeds {
		f.Add(seed, "A100,H100 NVL", "40gb", "2")
	}
	f.Fuzz(func(t *testing.T, gpus, model, mem, ngpus string) {
		job := &hostapi.Job{ResourceList: hostapi.Resources{
			"gpus": gpus, "gpu_model": model, "gpu_mem": mem, "ngpus": ngpus, "blocks": ngpus,
		}}
		a := ask{chunks: chunksOf(t, job, "n1"), here: []int{0}}
		err := a.addWants(job, nil)
		wants, blocks := a.wants, a.blocks
		if err != nil {
			if blocks != 0 {
				t.Errorf("%d blocks with an error", blocks)
			}
			text := err.Error()
			odd := func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }
			if len(text) > 800 || strings.ContainsFunc(text, odd) {
				t.Errorf("error %q", text)
			}
			return
		}
		for _, w := range wants {
			if w.Resource != "ngpus" || w.Count < 1 || w.MinMemory < 0 || w.MaxMemory < 0 ||
				w.MaxMemory > 0 && w.MinMemory > w.MaxMemory {
				t.Errorf("%+v", w)
			}
		}
	})
}
