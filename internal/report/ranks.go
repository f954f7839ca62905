package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// world is one MPI program of a job.
type world struct {
	name          string
	ranks         []int              // in order, each once
	hosts, all    int                // of the job: with a rank, with usage
	slowest       *hostapi.RankUsage // the least cpu time; nil unless all report theirs
	largest       *hostapi.RankUsage // the most memory; likewise
	slowOn, memOn string
	killed        []string // ranks that ran out of memory, with their hosts
}

// Ranks returns which MPI ranks were seen on hosts, for each program of a job: "0-127", "0-3 0-1";
// "" if there are none.
func Ranks(hosts map[string]*hostapi.HostUsage) string {
	var parts []string
	for _, w := range worlds(hosts) {
		parts = append(parts, spans(w.ranks))
	}
	return strings.Join(parts, " ")
}

// worlds combines the ranks of all hosts, by world.
func worlds(hosts map[string]*hostapi.HostUsage) []*world {
	byName := map[string]*world{}
	var all []*world
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if hosts[host] == nil {
			continue
		}
		seen := map[string]bool{}
		for i := range hosts[host].Ranks {
			rank := &hosts[host].Ranks[i]
			w := byName[rank.World]
			if w == nil {
				w = &world{name: rank.World}
				byName[rank.World], all = w, append(all, w)
			}
			if !seen[rank.World] {
				seen[rank.World] = true
				w.hosts++
			}
			w.add(rank, host)
		}
	}
	for _, w := range all {
		w.all = len(hosts)
		slices.Sort(w.ranks)
		w.ranks = slices.Compact(w.ranks)
	}
	slices.SortStableFunc(all, func(a, b *world) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (w *world) add(r *hostapi.RankUsage, host string) {
	w.ranks = append(w.ranks, r.Rank)
	if r.CPUTSeconds != nil && (w.slowest == nil || *r.CPUTSeconds < *w.slowest.CPUTSeconds) {
		w.slowest, w.slowOn = r, host
	}
	if r.MemPeakBytes != nil && (w.largest == nil || *r.MemPeakBytes > *w.largest.MemPeakBytes) {
		w.largest, w.memOn = r, host
	}
	if r.OOMKills != nil && *r.OOMKills > 0 {
		w.killed = append(w.killed, fmt.Sprintf("%d on %s", r.Rank, host))
	}
}

// String is "0-127 on 4 hosts; least cpu time: 17 on n3, 1.2 s; most memory: 5 on n2, 3.0 GiB".
func (w *world) String() string {
	text := fmt.Sprintf("%s on %s", spans(w.ranks), count(int64(w.hosts), "host", "hosts"))
	if w.hosts < w.all {
		text = fmt.Sprintf("%s on %d of %d hosts", spans(w.ranks), w.hosts, w.all)
	}
	if w.slowest != nil && len(w.ranks) > 1 {
		text += fmt.Sprintf("; least cpu time: %d on %s, %s", w.slowest.Rank, w.slowOn,
			cpuTime(*w.slowest.CPUTSeconds))
	}
	if w.largest != nil {
		text += fmt.Sprintf("; most memory: %d on %s, %s", w.largest.Rank, w.memOn, size(*w.largest.MemPeakBytes))
	}
	if len(w.killed) > 0 {
		text += "; out of memory: " + strings.Join(w.killed[:min(len(w.killed), 4)], ", ")
		if more := len(w.killed) - 4; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text
}

// spans formats sorted numbers like the kernel's lists: "0-3,8".
func spans(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if part := fmt.Sprint(numbers[i]); i == j {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s-%d", part, numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
