package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// gpuTexts are the resources that say which GPUs.
var gpuTexts = []string{"gpu_model", "gpu_mem", "gpus"}

// gpuAsk is what a chunk of the request asks for of GPUs. PBS may have taken it from several
// vnodes.
type gpuAsk struct {
	chunk int // its number in the request
	ngpus int
	texts map[string]string // by gpuTexts, as far as exec_vnode has them
	times int               // how many chunks ask for this; see equalAsks
}

// equalAsks joins asks that are equal but for their chunks, in the order of the first of them. A
// job may have thousands of chunks, with texts that take long to parse.
func equalAsks(asks []*gpuAsk) []gpuAsk {
	type key struct {
		ngpus            int
		model, mem, gpus string
	}
	var joined []gpuAsk
	at := map[key]int{}
	for _, a := range asks {
		k := key{a.ngpus, a.texts["gpu_model"], a.texts["gpu_mem"], a.texts["gpus"]}
		i, known := at[k]
		if !known {
			i = len(joined)
			at[k], joined = i, append(joined, *a)
		}
		joined[i].times++
	}
	return joined
}

// fillTexts adds to asks what schedselect says of them, or a select that PBS has not worked on yet.
// chunks is how many exec_vnode has. A text that no chunk has may stand in the job's own list (-l
// gpu_model=A100).
func fillTexts(asks []*gpuAsk, job *hostapi.Job, chunks int) error {
	text, name := job.Schedselect, "schedselect"
	if text == "" {
		text, name = job.ResourceList["select"], "resource_list select"
	}
	if text == "" {
		for _, a := range asks {
			a.fill(job.ResourceList)
		}
		return nil
	}
	own := slices.ContainsFunc(gpuTexts, func(key string) bool { return job.ResourceList[key] != "" })
	if len(asks) == 0 || !own && !strings.Contains(text, "gpu") {
		return nil
	}
	selected, err := pbs.ParseSelect(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if own && !slices.ContainsFunc(selected, namesGPUs) {
		return fillOwn(asks, job.ResourceList, chunks)
	}
	total, differ := 0, false
	for _, c := range selected {
		total += c.Count
		for _, key := range gpuTexts {
			differ = differ || c.Resources[key] != selected[0].Resources[key]
		}
	}
	if differ && total != chunks {
		return fmt.Errorf("%s has %d chunks and exec_vnode %d: which of them have which GPUs cannot be told", name,
			total, chunks)
	}
	for _, a := range asks {
		at := a.chunk
		for _, c := range selected {
			if at -= c.Count; at < 0 || !differ {
				a.fill(c.Resources)
				break
			}
		}
	}
	return nil
}

func namesGPUs(c pbs.Chunk) bool {
	return slices.ContainsFunc(gpuTexts, func(key string) bool { return c.Resources[key] != "" })
}

// fillOwn adds what the job's own list says of its GPUs: their kind to all chunks, a count to its
// only one.
func fillOwn(asks []*gpuAsk, list hostapi.Resources, chunks int) error {
	if text := list["gpus"]; text != "" && chunks > 1 {
		return resourceErr("gpus", text, fmt.Errorf("the job has %d chunks: ask for it in select", chunks))
	}
	for _, a := range asks {
		a.fill(list)
	}
	return nil
}

// fill takes of resources what a does not have.
func (a *gpuAsk) fill(resources map[string]string) {
	for _, name := range gpuTexts {
		if value, ok := resources[name]; ok && a.texts[name] == "" {
			a.texts[name] = value
		}
	}
}
