package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// gpuResource is about GPUs by their number. Resources of other names may be the site's.
var gpuResource = resource{
	decide: func(p *policy, got *assignment, _ host, _ []holding) error {
		if n := got.ask.NGPUs; n > 0 && !p.Devices.Enabled {
			got.noteUnenforced(fmt.Sprintf("ngpus=%d", n), "devices", false)
		}
		return nil
	},
}

// gpuTexts are the resources that describe the GPUs.
var gpuTexts = []string{"gpu_model", "gpu_mem", "gpus"}

// gpuAsk is one chunk's request for GPUs. PBS may satisfy a chunk from several vnodes.
type gpuAsk struct {
	chunk int // its number in the request
	ngpus int
	texts map[string]string // by name (gpuTexts), if exec_vnode has them
	times int               // how many chunks request the same; see equalAsks
}

// equalAsks merges requests that differ only in their chunk, in the order of their first chunks. A
// job may have thousands of chunks, and their texts are slow to parse.
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

// fillTexts adds the texts in schedselect to asks, or those in select if PBS has not processed that
// yet. chunks is the number of chunks in exec_vnode. A text that no chunk has may be in the job's
// own list (-l gpu_model=A100).
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
		return fmt.Errorf("%s has %d chunks and exec_vnode %d: the GPUs of each chunk are not known", name,
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

// fillOwn applies the job's own list: its GPU texts go to all chunks. A gpus text is accepted only
// if the job has one chunk.
func fillOwn(asks []*gpuAsk, list hostapi.Resources, chunks int) error {
	if text := list["gpus"]; text != "" && chunks > 1 {
		return pbs.ResourceError("gpus", text, fmt.Errorf("the job has %d chunks: ask for it in select", chunks))
	}
	for _, a := range asks {
		a.fill(list)
	}
	return nil
}

// fill copies the texts that a still lacks.
func (a *gpuAsk) fill(resources map[string]string) {
	for _, name := range gpuTexts {
		if value, ok := resources[name]; ok && a.texts[name] == "" {
			a.texts[name] = value
		}
	}
}
