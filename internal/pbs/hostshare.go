package pbs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// HostShare is a job's share of one host, summed over the host's vnodes and chunks.
type HostShare struct {
	NCPUs            int   // 0 if no chunk names ncpus
	Mem, Vmem, HPMem *Size // nil if not requested; PBS writes 0kb for a mem or vmem that was not requested
	NGPUs            int   // 0 if no chunk names ngpus
	// other resources: sums of numbers and sizes, otherwise the distinct values joined by ","
	Other map[string]string
}

// ErrNotOnHost is the cause if a job has no chunk on the host.
var ErrNotOnHost = errors.New("no chunk on this host")

// OnHost returns the share of chunks on a host; see chunksOn and Share. If there are none, it fails
// with ErrNotOnHost.
func OnHost(chunks []VnodeChunk, host string) (HostShare, error) {
	here := chunksOn(chunks, host)
	if here == nil {
		return HostShare{}, fmt.Errorf("exec_vnode on %s: %w", Shown(host), ErrNotOnHost)
	}
	return Share(Pick(chunks, here))
}

// Share returns the total of chunks. If a value does not have its resource's type, or a sum
// overflows, the error names the value.
func Share(chunks []VnodeChunk) (HostShare, error) {
	sums := map[string]*total{}
	other := map[string][]string{}
	for _, chunk := range chunks {
		for _, name := range names(chunk.Resources) {
			value := chunk.Resources[name]
			d := definitions[name]
			if !d.sum {
				other[name] = append(other[name], value)
				continue
			}
			if sums[name] == nil {
				sums[name] = &total{kind: d.kind}
			}
			if err := sums[name].add(value, 1); err != nil {
				return HostShare{}, fmt.Errorf("exec_vnode %s: %w", Shown(chunk.Vnode), ResourceError(name, value, err))
			}
		}
	}
	return newHostShare(sums, other), nil
}

func newHostShare(sums map[string]*total, other map[string][]string) HostShare {
	var share HostShare
	for name, values := range other {
		share.set(name, merge(name, values))
	}
	for name, t := range sums {
		size := Size(t.n)
		switch name {
		case "ncpus":
			share.NCPUs = int(t.n)
		case "ngpus":
			share.NGPUs = int(t.n)
		case "mem":
			share.Mem = nonZero(size)
		case "vmem":
			share.Vmem = nonZero(size)
		case "hpmem":
			share.HPMem = &size
		default:
			share.set(name, t.String())
		}
	}
	return share
}

func (s *HostShare) set(name, value string) {
	if s.Other == nil {
		s.Other = map[string]string{}
	}
	s.Other[name] = value
}

// nonZero reads 0 as "not requested": a limit of 0 would kill the job at its first page.
func nonZero(s Size) *Size {
	if s == 0 {
		return nil
	}
	return &s
}

// merge combines the values of a resource for which Share has no sum. A site's resource is added up
// if its values are numbers, because exec_vnode contains consumable resources.
func merge(name string, values []string) string {
	kinds := []kind{kindCount, kindSize}
	if _, known := definitions[name]; known {
		kinds = nil
	}
	for _, k := range kinds {
		sum := &total{kind: k}
		if !slices.ContainsFunc(values, func(value string) bool { return sum.add(value, 1) != nil }) {
			return sum.String()
		}
	}
	if sum, ok := addFloats(values); ok && len(kinds) > 0 {
		return sum
	}
	return strings.Join(distinct(values), ",")
}

// addFloats returns the sum of several numbers, or false if one of them or the sum is not a number.
func addFloats(values []string) (sum string, ok bool) {
	total := 0.0
	for _, value := range values {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || strings.Trim(value, "0123456789.") != "" { // "inf" cannot be added up
			return "", false
		}
		total += n
	}
	return strconv.FormatFloat(total, 'f', -1, 64), len(values) > 1 && !math.IsInf(total, 0)
}

// Pick returns the chunks with these indices.
func Pick(chunks []VnodeChunk, numbers []int) []VnodeChunk {
	picked := make([]VnodeChunk, len(numbers))
	for i, n := range numbers {
		picked[i] = chunks[n]
	}
	return picked
}
