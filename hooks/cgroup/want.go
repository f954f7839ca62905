package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
)

// A job requests devices chunk by chunk:
//
//	ngpus=2                               two GPUs
//	ngpus=2:gpu_model=A100:gpu_mem=40gb   two A100 of 40 GB or more
//	gpus="nvidia:A100,H100:40GB..80GB:2"  vendor, models, memory and count; see parseGPUs
//	gpus=2                                two GPUs
//	fpga=1                                a device of the configuration
//	blocks=1                              a part of the host
//
// exec_vnode has only what PBS counts. PBS compares texts (gpu_model, gpu_mem, gpus) with the vnode
// and leaves them out of exec_vnode (openpbs scheduler, create_execvnode). So they are also looked
// up in schedselect, which has the chunks in the same order.

// wantsOf returns the devices that the chunks of this host request. here has the indices of these
// chunks, and resources are those of configured devices. Equal wants are added up. gpu_model and
// gpu_mem without ngpus request no device: they only served to choose the node. Errors are the
// job's fault and name the resource and its value.
func wantsOf(chunks []pbs.VnodeChunk, here []int, job *hostapi.Job, resources []string) ([]placement.Want, error) {
	var asks []*gpuAsk
	var sum wantSum
	for _, c := range pbs.Pick(chunks, here) {
		if len(asks) == 0 || asks[len(asks)-1].chunk != c.Chunk {
			asks = append(asks, &gpuAsk{chunk: c.Chunk, texts: map[string]string{}})
		}
		if err := sum.addCounts(c.Resources, resources, asks[len(asks)-1]); err != nil {
			return nil, fmt.Errorf("vnode %s: %w", c.Vnode, err)
		}
	}
	for _, name := range resources {
		n, err := countOfJob(job.ResourceList, chunks, name)
		if err == nil {
			err = sum.add(placement.Want{Resource: name, Count: n})
		}
		if err != nil {
			return nil, err
		}
	}
	if err := fillTexts(asks, job, chunks[len(chunks)-1].Chunk+1); err != nil {
		return nil, err
	}
	for _, a := range equalAsks(asks) {
		if err := sum.addGPUs(a); err != nil {
			return nil, err
		}
	}
	return sum.wants, nil
}

// mostWants limits how many kinds of devices one job may want, and also the items of gpus.
const mostWants = 64

// wantSum adds up wants.
type wantSum struct {
	wants []placement.Want
	at    map[string]int
}

// addCounts adds the counts in one part of exec_vnode. Its GPUs go to a.
func (s *wantSum) addCounts(resources map[string]string, configured []string, a *gpuAsk) error {
	here, err := parseCount(resources["gpus"])
	before, notCount := parseCount(a.texts["gpus"])
	a.fill(resources)
	if err == nil && notCount == nil { // PBS counts gpus, so each vnode of the chunk has its share
		a.texts["gpus"] = strconv.Itoa(before + here)
	}
	n, err := countOf(resources, "ngpus")
	if err != nil {
		return err
	}
	a.ngpus += n
	for _, name := range configured {
		if name == "ngpus" || name == "blocks" {
			continue
		}
		n, err := countOf(resources, name)
		if err == nil {
			err = s.add(placement.Want{Resource: name, Count: n})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addGPUs adds the GPUs that a requests. If it has both ngpus and gpus, gpus describes some of the
// ngpus. If exactly one item has no count, it gets the rest.
func (s *wantSum) addGPUs(a gpuAsk) error {
	items, err := parseGPUs(a.texts["gpus"])
	rest := a.ngpus
	if err == nil && len(items) > 0 {
		items, rest, err = counted(items, a.ngpus)
	}
	if err != nil {
		return pbs.ResourceError("gpus", a.texts["gpus"], err)
	}
	for _, w := range items {
		w.Count *= a.times
		if err := s.add(w); err != nil {
			return err
		}
	}
	if rest == 0 {
		return nil
	}
	w := placement.Want{Resource: "ngpus", Count: rest * a.times}
	if w.Models, err = parseModels(a.texts["gpu_model"]); err != nil {
		return pbs.ResourceError("gpu_model", a.texts["gpu_model"], err)
	}
	if text := a.texts["gpu_mem"]; text != "" {
		least, err := pbs.ParseSize(text)
		if err != nil {
			return pbs.ResourceError("gpu_mem", text, errSize)
		}
		w.MinMemory = int64(least)
	}
	return s.add(w)
}

// counted gives each item a count, and returns how many of ngpus are left. That is 0 if the job did
// not request ngpus.
func counted(items []placement.Want, ngpus int) ([]placement.Want, int, error) {
	sum, open := 0, 0
	for _, w := range items {
		if w.Count == noCount {
			open++
		} else {
			sum += w.Count
		}
	}
	for i := range items {
		if items[i].Count != noCount {
			continue
		}
		items[i].Count = 1
		if open == 1 {
			items[i].Count = max(1, ngpus-sum)
		}
	}
	sum = 0
	for _, w := range items {
		sum += w.Count
	}
	switch {
	case ngpus == 0:
		return items, 0, nil
	case sum > ngpus:
		return nil, 0, fmt.Errorf("these add up to %d, but ngpus is %d", sum, ngpus)
	}
	return items, ngpus - sum, nil
}

// add adds w to the want that differs from it only in the count.
func (s *wantSum) add(w placement.Want) error {
	if w.Count == 0 {
		return nil
	}
	models := slices.Clone(w.Models)
	for i := range models {
		models[i] = strings.ToLower(models[i])
	}
	slices.Sort(models)
	key := fmt.Sprintf("%s %s %q %d %d", w.Resource, w.Vendor, slices.Compact(models), w.MinMemory, w.MaxMemory)
	if at, ok := s.at[key]; ok {
		s.wants[at].Count += w.Count
		return nil
	}
	if len(s.wants) == mostWants {
		err := fmt.Errorf("a job may request at most %d kinds of devices", mostWants)
		return pbs.ResourceError(w.Resource, strconv.Itoa(w.Count), err)
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	s.at[key] = len(s.wants)
	s.wants = append(s.wants, w)
	return nil
}
