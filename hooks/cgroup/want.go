package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
)

// A job asks for devices chunk by chunk:
//
//	ngpus=2                               two GPUs
//	ngpus=2:gpu_model=A100:gpu_mem=40gb   two A100 of 40 GB or more
//	gpus="nvidia:A100,H100:40GB..80GB:2"  vendor, models, memory and count, see parseGPUs
//	gpus=2                                two GPUs
//	fpga=1                                a device of the configuration
//	blocks=1                              a part of the host
//
// exec_vnode has of these what PBS counts. What are texts (gpu_model, gpu_mem, gpus) PBS compares with the vnode and leaves
// out (openpbs scheduler, create_execvnode), so they are looked for in schedselect too, whose chunks come in the same order.

// gpuTexts are the resources that say which GPUs.
var gpuTexts = []string{"gpu_model", "gpu_mem", "gpus"}

const (
	mostGPUText = 4096 // bytes of one value
	mostModels  = 32   // in one value
	mostWants   = 64   // kinds of devices of one job
)

// gpuAsk is what a chunk of the request asks for of GPUs. PBS may have taken it from several vnodes.
type gpuAsk struct {
	chunk int // its number in the request
	ngpus int
	texts map[string]string // by gpuTexts, as far as exec_vnode has them
	times int               // how many chunks ask for this; see equalAsks
}

// wantsOf returns the devices that the chunks of host node ask for; resources are those of configured devices. What is wanted
// several times is one want with the sum. gpu_model and gpu_mem without ngpus ask for no device: they chose the node. Errors are
// the job's and name resource and value.
func wantsOf(chunks []pbs.VnodeChunk, job *hostapi.Job, node string, resources []string) ([]placement.Want, error) {
	var asks []*gpuAsk
	var sum wantSum
	numbers := chunkNumbers(job.ExecVnode, len(chunks))
	for _, i := range pbs.ChunksOn(chunks, node) {
		c := chunks[i]
		if len(asks) == 0 || asks[len(asks)-1].chunk != numbers[i] {
			asks = append(asks, &gpuAsk{chunk: numbers[i], texts: map[string]string{}})
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
	if err := fillTexts(asks, job, numbers); err != nil {
		return nil, err
	}
	for _, a := range equalAsks(asks) {
		if err := sum.addGPUs(a); err != nil {
			return nil, err
		}
	}
	return sum.wants, nil
}

// blocksOf returns how many blocks the chunks of host node ask for. Errors are as those of wantsOf.
func blocksOf(chunks []pbs.VnodeChunk, job *hostapi.Job, node string) (int, error) {
	sum := 0
	for _, i := range pbs.ChunksOn(chunks, node) {
		n, err := countOf(chunks[i].Resources, "blocks")
		if err != nil {
			return 0, fmt.Errorf("vnode %s: %w", chunks[i].Vnode, err)
		}
		sum += n
	}
	n, err := countOfJob(job.ResourceList, chunks, "blocks")
	return sum + n, err
}

// equalAsks joins asks that are equal but for their chunks, in the order of the first of them: a job may have thousands of chunks,
// with texts that take long to parse.
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

// chunkNumbers tells for each of the n parts of exec_vnode which chunk of the request it is for: those in one pair of parentheses
// are for one.
func chunkNumbers(execVnode string, n int) []int {
	numbers := make([]int, 1, n)
	var quote byte
	open := false
	for _, c := range []byte(execVnode) {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '(' || c == ')':
			open = c == '('
		case c == '+':
			next := numbers[len(numbers)-1]
			if !open {
				next++
			}
			numbers = append(numbers, next)
		}
	}
	for len(numbers) < n { // not that exec_vnode
		numbers = append(numbers, len(numbers))
	}
	return numbers
}

// fillTexts adds to asks what schedselect, or a select that nobody has worked on yet, says of them; numbers are those of all parts of
// exec_vnode. What no chunk says may stand in the job's own list (-l gpu_model=A100).
func fillTexts(asks []*gpuAsk, job *hostapi.Job, numbers []int) error {
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
		return fillOwn(asks, job.ResourceList, numbers[len(numbers)-1]+1)
	}
	total, differ := 0, false
	for _, c := range selected {
		total += c.Count
		for _, key := range gpuTexts {
			differ = differ || c.Resources[key] != selected[0].Resources[key]
		}
	}
	if chunks := numbers[len(numbers)-1] + 1; differ && total != chunks {
		return fmt.Errorf("%s has %d chunks and exec_vnode %d: which of them have which GPUs cannot be told", name, total, chunks)
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

// fillOwn adds what the job's own list says of its GPUs: their kind to all chunks, a count to its only one.
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

// wantSum collects wants.
type wantSum struct {
	wants []placement.Want
	at    map[string]int
}

// addCounts adds what one part of exec_vnode has, its GPUs to a.
func (s *wantSum) addCounts(resources map[string]string, configured []string, a *gpuAsk) error {
	here, err := parseCount(resources["gpus"])
	before, notCount := parseCount(a.texts["gpus"])
	a.fill(resources)
	if err == nil && notCount == nil { // PBS counts gpus: every vnode of the chunk has its part of them
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

// countOfJob returns the count of a resource that stands in the job's own list only (-l fpga=1): where the resource has not the
// flag h, PBS leaves it out of exec_vnode. Which host has how many can be told only when there is one.
func countOfJob(list hostapi.Resources, chunks []pbs.VnodeChunk, name string) (int, error) {
	if slices.ContainsFunc(chunks, func(c pbs.VnodeChunk) bool { return c.Resources[name] != "" }) {
		return 0, nil
	}
	n, err := countOf(list, name)
	if err == nil && n > 0 && slices.ContainsFunc(chunks, func(c pbs.VnodeChunk) bool { return c.Host != chunks[0].Host }) {
		err = resourceErr(name, list[name], errors.New("exec_vnode does not say how much of it each host has: ask for it in select"))
	}
	return n, err
}

// addGPUs adds what a asks for. Where it has both ngpus and gpus, gpus says which of the ngpus they are; the one item that has no count
// is the rest of them.
func (s *wantSum) addGPUs(a gpuAsk) error {
	items, err := parseGPUs(a.texts["gpus"])
	rest := a.ngpus
	if err == nil && len(items) > 0 {
		items, rest, err = counted(items, a.ngpus)
	}
	if err != nil {
		return resourceErr("gpus", a.texts["gpus"], err)
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
		return resourceErr("gpu_model", a.texts["gpu_model"], err)
	}
	if text := a.texts["gpu_mem"]; text != "" {
		least, err := pbs.ParseSize(text)
		if err != nil {
			return resourceErr("gpu_mem", text, errSize)
		}
		w.MinMemory = int64(least)
	}
	return s.add(w)
}

// counted gives each of items a count and returns what is left of ngpus, which is 0 where nobody asked for any.
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
		return nil, 0, fmt.Errorf("these are %d, and ngpus is %d", sum, ngpus)
	}
	return items, ngpus - sum, nil
}

// add adds w to the want that is equal but for the count.
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
		return resourceErr(w.Resource, strconv.Itoa(w.Count), fmt.Errorf("a job may want %d kinds of devices, and this is one more", mostWants))
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	s.at[key] = len(s.wants)
	s.wants = append(s.wants, w)
	return nil
}

// noCount stands in Count of an item that does not tell it.
const noCount = -1

var (
	errCount  = errors.New("not a whole number")
	errMany   = errors.New("too large")
	errSize   = errors.New("not a size such as 40gb")
	errLong   = fmt.Errorf("longer than %d bytes", mostGPUText)
	errModels = fmt.Errorf("more than %d models", mostModels)
)

// parseGPUs parses the value of gpus: items vendor:models:memory:count that are joined by +. Fields from the right may be left out, and
// each may be empty or *, which is any, and 1 for the count. Models are joined by commas; memory is 40GB, or 40GB.., ..80GB,
// 40GB..80GB with both ends in it. Empty text has no items. The count of an item without one is noCount. A bare number is so many of
// any: before hookhost, sites have counted their GPUs in a resource of this name.
func parseGPUs(text string) ([]placement.Want, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > mostGPUText {
		return nil, errLong
	}
	if n, err := parseCount(text); err == nil {
		return []placement.Want{{Resource: "ngpus", Count: n}}, nil
	}
	var wants []placement.Want
	for item := range strings.SplitSeq(text, "+") {
		if len(wants) == mostWants {
			return nil, fmt.Errorf("more than %d items", mostWants)
		}
		if strings.TrimSpace(item) == "" {
			return nil, errors.New("an empty item")
		}
		fields := strings.Split(item, ":")
		if len(fields) > 4 {
			return nil, errors.New("more than vendor:models:memory:count")
		}
		for i := range fields {
			if fields[i] = strings.TrimSpace(fields[i]); fields[i] == "*" {
				fields[i] = ""
			}
		}
		fields = append(fields, "", "", "")[:4]
		w := placement.Want{Resource: "ngpus", Vendor: strings.ToLower(fields[0]), Count: noCount}
		if w.Vendor != "" && !slices.Contains(vendors, w.Vendor) {
			return nil, fmt.Errorf("vendor %s is none of %s", shownValue(fields[0]), strings.Join(vendors, ", "))
		}
		var err error
		if w.Models, err = parseModels(fields[1]); err != nil {
			return nil, err
		}
		if w.MinMemory, w.MaxMemory, err = parseMemory(fields[2]); err != nil {
			return nil, fmt.Errorf("memory %s: %w", shownValue(fields[2]), err)
		}
		if fields[3] != "" {
			if w.Count, err = parseCount(fields[3]); err != nil {
				return nil, fmt.Errorf("count %s: %w", shownValue(fields[3]), err)
			}
		}
		wants = append(wants, w)
	}
	return wants, nil
}

// vendors are those that topology.Device knows.
var vendors = []string{"nvidia", "amd", "intel", "habana"}

// parseModels parses names joined by commas; nil is any.
func parseModels(text string) ([]string, error) {
	if len(text) > mostGPUText {
		return nil, errLong
	}
	if text = strings.TrimSpace(text); text == "" || text == "*" {
		return nil, nil
	}
	models := strings.Split(text, ",")
	if len(models) > mostModels {
		return nil, errModels
	}
	for i, model := range models {
		models[i] = strings.TrimSpace(model)
		word := strings.ContainsFunc(model, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
		strange := strings.ContainsFunc(model, func(r rune) bool { return r == unicode.ReplacementChar || !strconv.IsPrint(r) || r == '*' })
		if !word || strange {
			return nil, fmt.Errorf("%s is not a model", shownValue(model))
		}
	}
	return models, nil
}

// parseMemory parses N, N.., ..M and N..M; 0 is any.
func parseMemory(text string) (least, most int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		high = low
	}
	if low == "" && high == "" {
		return 0, 0, errSize
	}
	for _, end := range []struct {
		text string
		to   *int64
	}{{low, &least}, {high, &most}} {
		if end.text == "" {
			continue
		}
		size, err := pbs.ParseSize(end.text)
		// A number without a unit is a count in the wrong place rather than some bytes.
		if err != nil || size == 0 || strings.Trim(end.text, "0123456789") == "" {
			return 0, 0, errSize
		}
		*end.to = int64(size)
	}
	if most > 0 && least > most {
		return 0, 0, errors.New("the first is larger than the second")
	}
	return least, most, nil
}

// countOf returns the count that resources have by name, 0 without it.
func countOf(resources map[string]string, name string) (int, error) {
	value, ok := resources[name]
	if !ok {
		return 0, nil
	}
	n, err := parseCount(value)
	if err != nil {
		return 0, resourceErr(name, value, err)
	}
	return n, nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errMany
	case err != nil:
		return 0, errCount
	}
	return int(n), nil
}

func resourceErr(name, value string, err error) error {
	return fmt.Errorf("resource %s=%s: %w", name, shownValue(value), err)
}

// shownValue is text as an error may quote it: one line, printable, not long.
func shownValue(text string) string {
	const most = 64
	cut := ""
	if len(text) > most {
		text, cut = text[:most], "..."
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !strconv.IsPrint(r) }) {
		return strconv.Quote(text) + cut
	}
	return text + cut
}

// micsNote tells a job that asks for nmics that it gets none: there are no such devices any more.
func micsNote(other map[string]string) string {
	if n := other["nmics"]; n != "" && strings.Trim(n, "0") != "" {
		return fmt.Sprintf("nmics=%s is not given: hookhost knows no such devices", shownValue(n))
	}
	return ""
}
