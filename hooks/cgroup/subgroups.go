package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/rank"
)

// rankGroups are the subgroups of a job's ranks.
type rankGroups map[rank.Key]rankGroup

// rankGroup is the subgroup of one rank. Its mark is rank as JSON.
type rankGroup struct {
	name string
	rank rank.Found
}

// groupName returns the name of a rank's subgroup. Worlds are numbered from 1, and the name leaves
// out world 1.
func groupName(world, rank int) string {
	if world == 1 {
		return fmt.Sprintf("rank.%d", rank)
	}
	return fmt.Sprintf("rank.%d.%d", world, rank)
}

// parseGroupName reverses groupName.
func parseGroupName(name string) (world, rank int, ok bool) {
	rest, ok := strings.CutPrefix(name, "rank.")
	first, second, two := strings.Cut(rest, ".")
	world, err := 1, error(nil)
	if two {
		world, err = strconv.Atoi(first)
		first = second
	}
	rank, rankErr := strconv.Atoi(first)
	return world, rank, ok && err == nil && rankErr == nil && groupName(world, rank) == name
}

// rankGroups reads the marks of a job's subgroups. A subgroup without our mark is not a rank's.
func (h *hook) rankGroups(j *cgroup.Job) (rankGroups, error) {
	list, err := j.Subgroups()
	groups := rankGroups{}
	for _, s := range list {
		g := rankGroup{name: s.Name}
		if _, _, ok := parseGroupName(s.Name); ok && json.Unmarshal(s.Mark, &g.rank) == nil {
			groups[g.rank.Key] = g
		}
	}
	return groups, err
}

// make creates the subgroup, or replaces its mark with that of another process.
func (g rankGroup) make(j *cgroup.Job) error {
	mark, err := json.Marshal(g.rank)
	if err != nil {
		return err
	}
	return j.MakeSubgroup(g.name, mark)
}

// name returns a name for a rank that has no subgroup yet. It uses the number of the rank's world,
// or the lowest free number.
func (g rankGroups) name(k rank.Key) string {
	worlds, taken := map[string]int{}, map[int]bool{}
	for key, group := range g {
		w, _, _ := parseGroupName(group.name)
		worlds[key.World], taken[w] = w, true
	}
	w, known := worlds[k.World]
	if !known {
		for w = 1; taken[w]; w++ {
		}
	}
	return groupName(w, k.Rank)
}

// mostRanks limits how many subgroups one job gets for its ranks. A user can make any number of
// processes look like ranks, and each subgroup costs kernel memory on every cpu.
func (h *hook) mostRanks() int { return min(hostapi.MaxRanks, max(64, 4*h.node().Online.Len())) }

// ranksUsed returns what each rank has used since it was found.
func (h *hook) ranksUsed(j *cgroup.Job) ([]hostapi.RankUsage, error) {
	groups, err := h.rankGroups(j)
	errs := []error{err}
	var list []hostapi.RankUsage
	for k, g := range groups {
		u, err := j.SubgroupUsage(g.name)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		errs = append(errs, err)
		list = append(list, hostapi.RankUsage{World: k.World, Rank: k.Rank, PID: g.rank.Process.PID,
			Comm: g.rank.Comm, CPUTSeconds: seconds(u.CPU), MemPeakBytes: u.MemPeak, OOMKills: u.OOMKills})
	}
	slices.SortFunc(list, func(a, b hostapi.RankUsage) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	return list[:min(len(list), hostapi.MaxRanks)], errors.Join(errs...)
}

// ranksKilled returns the ranks in which the kernel killed processes because memory ran out, as far
// as can be read.
func (h *hook) ranksKilled(j *cgroup.Job) (killed []int) {
	list, err := h.ranksUsed(j)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	for _, r := range list {
		if r.OOMKills != nil && *r.OOMKills > 0 && !slices.Contains(killed, r.Rank) {
			killed = append(killed, r.Rank)
		}
	}
	return killed
}
