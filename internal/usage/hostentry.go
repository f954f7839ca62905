package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// hostEntry is what a job used on one host, in the form in which PBS carries it: an entry of the
// resource host_usage. Sizes are in kb, times in seconds with one decimal. An absent figure was not
// measured.
type hostEntry struct {
	CPUT  *float64 `json:"cput,omitempty"`
	Mem   *int64   `json:"mem,omitempty"`
	Peak  *int64   `json:"peak,omitempty"` // of the cgroup: page cache and kernel memory included
	Vmem  *int64   `json:"vmem,omitempty"`
	Limit *int64   `json:"limit,omitempty"` // of memory
	OOM   *int64   `json:"oom,omitempty"`
	Quota *float64 `json:"quota,omitempty"` // cpu time that the quota withheld
	// Wait is how long processes waited: for cpus, for memory, all of them for memory, for files.
	Wait []*float64 `json:"wait,omitempty"`
	// GPU has an array for each: how many percent of the time it was busy, the most memory of one
	// process, its energy in J.
	GPU [][]*float64 `json:"gpu,omitempty"`
}

// maxEntry bounds an entry in bytes: 1,000 hosts have at most 1 MB. MoM adds a blank after each
// comma and colon when it merges the entries of several hosts.
const maxEntry = 1000

// mostFigure bounds each figure: that many kb still are a number of bytes.
const mostFigure = 1 << 50

// HostEntry returns h as an entry of host_usage: JSON without blanks, at most 1,000 bytes. GPUs are
// left out if they do not fit; 30 do. Devices that were not measured, or that a resize has taken
// from the job, are also left out. It returns "" if nothing was measured.
func HostEntry(h *hostapi.HostUsage) string {
	e := hostEntry{
		CPUT: tenths(h.CPUTSeconds), Mem: kb(h.MemBytes), Peak: kb(h.CgroupPeakBytes), Vmem: kb(h.VmemBytes),
		Limit: kb(h.MemLimitBytes), OOM: h.OOMKills, Quota: tenths(h.ThrottledSeconds),
	}
	if p := h.Pressure; p != nil {
		e.Wait = known(tenths(p.CPUSome), tenths(p.MemorySome), tenths(p.MemoryFull), tenths(p.IOSome))
	}
	for _, d := range h.Devices {
		if !d.Returned && d.UtilizationPercent != nil {
			e.GPU = append(e.GPU, known(whole(d.UtilizationPercent), float(kb(d.MemPeakBytes)), whole(d.EnergyJoules)))
		}
	}
	text, err := json.Marshal(e)
	if len(text) > maxEntry {
		e.GPU = nil
		text, err = json.Marshal(e)
	}
	if err != nil || string(text) == "{}" { // NaN and infinity are left out above
		return ""
	}
	return string(text)
}

// ParseHostUsage returns the usage by host in a value of host_usage, as qstat and accounting have
// it: MoM may put it in single quotes. Keys that this hookhost does not know are ignored. GPUs have
// names by their order. It fails for a value that is not of this form.
func ParseHostUsage(text string) (map[string]*hostapi.HostUsage, error) {
	if bare, quoted := strings.CutPrefix(text, "'"); quoted {
		text = strings.TrimSuffix(bare, "'")
	}
	var entries map[string]hostEntry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("host_usage: %w", err)
	}
	hosts := make(map[string]*hostapi.HostUsage, len(entries))
	for name, e := range entries {
		h, err := e.usage()
		if err != nil {
			return nil, fmt.Errorf("host_usage of %.64q: %w", name, err)
		}
		hosts[name] = h
	}
	return hosts, nil
}

func (e hostEntry) usage() (*hostapi.HostUsage, error) {
	for _, n := range slices.Concat([]*float64{e.CPUT, e.Quota, float(e.Mem), float(e.Peak), float(e.Vmem),
		float(e.Limit), float(e.OOM)}, e.Wait, slices.Concat(e.GPU...)) {
		if n != nil && (*n < 0 || *n > mostFigure) {
			return nil, errors.New("a figure is negative or too large")
		}
	}
	h := &hostapi.HostUsage{
		CPUTSeconds: e.CPUT, MemBytes: bytes(e.Mem), CgroupPeakBytes: bytes(e.Peak), VmemBytes: bytes(e.Vmem),
		MemLimitBytes: bytes(e.Limit), OOMKills: e.OOM, ThrottledSeconds: e.Quota,
	}
	if len(e.Wait) > 0 {
		h.Pressure = &hostapi.Pressure{
			CPUSome: at(e.Wait, 0), MemorySome: at(e.Wait, 1), MemoryFull: at(e.Wait, 2), IOSome: at(e.Wait, 3),
		}
	}
	for i, g := range e.GPU {
		d := hostapi.DeviceUsage{
			ID: fmt.Sprintf("GPU %d", i), Resource: "ngpus", UtilizationPercent: at(g, 0), EnergyJoules: at(g, 2),
		}
		if mem := at(g, 1); mem != nil {
			d.MemPeakBytes = bytes(new(int64(*mem)))
		}
		h.Devices = append(h.Devices, d)
	}
	return h, nil
}

// known returns values without the unknown ones at the end.
func known(values ...*float64) []*float64 {
	for len(values) > 0 && values[len(values)-1] == nil {
		values = values[:len(values)-1]
	}
	return values
}

// at returns the value at i, nil if it is unknown.
func at(values []*float64, i int) *float64 {
	if i >= len(values) {
		return nil
	}
	return values[i]
}

// tenths returns a valid number of seconds, rounded.
func tenths(s *float64) *float64 {
	if d, ok := seconds(s); ok {
		return new(math.Round(10*d.Seconds()) / 10)
	}
	return nil
}

func whole(n *float64) *float64 {
	if n == nil || !(*n >= 0 && *n <= mostFigure) {
		return nil
	}
	return new(math.Round(*n))
}

// kb returns bytes in kb, rounded up as PBS does.
func kb(bytes *int64) *int64 {
	if bytes == nil || *bytes < 0 {
		return nil
	}
	return new(*bytes>>10 + (*bytes&1023+1023)>>10)
}

func bytes(kb *int64) *int64 {
	if kb == nil {
		return nil
	}
	return new(*kb << 10)
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
