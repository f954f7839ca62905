package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// With [mpi] per_task each MPI rank has a subgroup of its job's cgroup, a task of internal/cgroup, so that what it used is known. A launcher's
// daemon forks the ranks, and no event tells of that: they are looked for, by what their environment says, some moments after a program
// was started or taken in, and at each periodic. What a rank used before it was found counts for the job only.

// perTask tells whether jobs that begin get that.
func (p *policy) perTask() bool { return p.MPI.Enabled && p.MPI.PerTask }

// rankLooks are when ranks are looked for after a program of the job was started or taken in; after that at each periodic.
var rankLooks = []time.Duration{1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 61 * time.Second}

// lookForRanks notes that a program is about to start, and returns when to look for its ranks; 0 where they get no cgroups.
func (s *state) lookForRanks() time.Duration {
	if !s.PerTask {
		return 0
	}
	s.RanksFrom = sinceBoot()
	return rankLooks[0]
}

// nextLook returns how long it is to the next of rankLooks; 0 after the last.
func (s *state) nextLook() time.Duration {
	if !s.PerTask || s.RanksFrom == 0 {
		return 0
	}
	since := time.Duration(sinceBoot()-s.RanksFrom) * time.Microsecond
	for _, at := range rankLooks {
		if pause := at - since; pause > rankLooks[0]/2 { // else this look was it, a little early
			return pause
		}
	}
	return 0
}

// rankMark is what a rank's cgroup says of it.
type rankMark struct {
	World   string            `json:"world,omitempty"`
	Rank    int               `json:"rank"`
	Process hostapi.ProcessID `json:"process"` // its topmost one
	Comm    string            `json:"comm,omitempty"`
}

// rankKey tells the ranks of a job apart.
type rankKey struct {
	world string
	rank  int
}

func (m rankMark) key() rankKey { return rankKey{m.World, m.Rank} }

// taskName is the name of a rank's cgroup. Worlds are numbered from 1, of which the name says nothing.
func taskName(world, rank int) string {
	if world == 1 {
		return fmt.Sprintf("rank.%d", rank)
	}
	return fmt.Sprintf("rank.%d.%d", world, rank)
}

// parseTaskName is the reverse.
func parseTaskName(name string) (world, rank int, ok bool) {
	rest, ok := strings.CutPrefix(name, "rank.")
	first, second, two := strings.Cut(rest, ".")
	world, err := 1, error(nil)
	if two {
		world, err = strconv.Atoi(first)
		first = second
	}
	rank, rankErr := strconv.Atoi(first)
	return world, rank, ok && err == nil && rankErr == nil && taskName(world, rank) == name
}

// rankGroups are the ranks of a job that have a cgroup.
type rankGroups map[rankKey]rankGroup

type rankGroup struct {
	name string
	mark rankMark
}

// rankGroups reads them. A task without a mark of ours is nobody's rank.
func (h *hook) rankGroups(j *cgroup.Job) (rankGroups, error) {
	tasks, err := j.Tasks()
	groups := rankGroups{}
	for _, t := range tasks {
		var m rankMark
		if _, _, ok := parseTaskName(t.Name); ok && json.Unmarshal(t.Mark, &m) == nil {
			groups[m.key()] = rankGroup{t.Name, m}
		}
	}
	return groups, err
}

// name returns the name for a rank that has no cgroup yet: with the number that its world has, else the lowest that is free.
func (g rankGroups) name(k rankKey) string {
	worlds, taken := map[string]int{}, map[int]bool{}
	for _, group := range g {
		w, _, _ := parseTaskName(group.name)
		worlds[group.mark.World], taken[w] = w, true
	}
	w, known := worlds[k.world]
	if !known {
		for w = 1; taken[w]; w++ {
		}
	}
	return taskName(w, k.rank)
}

// ranksUsed returns what each rank has used since it was found.
func (h *hook) ranksUsed(j *cgroup.Job) ([]hostapi.RankUsage, error) {
	groups, err := h.rankGroups(j)
	errs := []error{err}
	var list []hostapi.RankUsage
	for k, g := range groups {
		u, err := j.TaskUsage(g.name)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		errs = append(errs, err)
		list = append(list, hostapi.RankUsage{World: k.world, Rank: k.rank, PID: g.mark.Process.PID, Comm: g.mark.Comm,
			CPUTSeconds: seconds(u.CPU), MemPeakBytes: u.MemPeak, OOMKills: u.OOMKills})
	}
	slices.SortFunc(list, func(a, b hostapi.RankUsage) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	return list[:min(len(list), hostapi.MaxRanks)], errors.Join(errs...)
}

// ranksKilled returns the ranks in which the kernel has killed for lack of memory, as far as that can be read.
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

// rankBook is what this process remembers of a job's ranks. Nothing is lost with it but time.
type rankBook struct {
	none map[int]uint64  // start times of processes that are no rank's, by pid
	idle map[string]bool // ranks that had no processes when it was last told what they used
	said map[string]bool // what was told of the job in the log
}

func (h *hook) rankBook(id string) *rankBook {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.books[id]
	if b == nil {
		b = &rankBook{none: map[int]uint64{}, idle: map[string]bool{}, said: map[string]bool{}}
		if h.books == nil {
			h.books = map[string]*rankBook{}
		}
		h.books[id] = b
	}
	return b
}

// tendRanks gives each rank that has none a cgroup, and takes those away whose ranks have ended. What fails is in the log, once a job, and
// tried again the next time: a job is none the worse for it. The caller has the job's turn.
func (h *hook) tendRanks(ctx context.Context, j *cgroup.Job) {
	book := h.rankBook(j.ID())
	s := &rankSearch{h: h, j: j, book: book, known: map[int]proc.Process{}, owners: map[int]rankOwner{}}
	for _, err := range []error{s.run(ctx), h.retireRanks(j, book)} {
		if err == nil || errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		if text := err.Error(); !book.said["failed"] {
			book.said["failed"] = true
			h.logOf(j.ID()).Warnf("its ranks are not all counted apart: %s", text)
		}
	}
}

// retireRanks removes the cgroups of ranks that have ended, so that a job which starts one program after the other does not fill the
// node with them. One that is found empty is removed the next time: by then the host knows what it used. It stays until the job's end
// where the library does not name its worlds, since the rank of the next program goes on counting in it, and where the kernel killed
// for lack of memory, since v1 counts that in the rank's cgroup alone.
func (h *hook) retireRanks(j *cgroup.Job, book *rankBook) error {
	groups, err := h.rankGroups(j)
	errs := []error{err}
	idle := map[string]bool{}
	for k, g := range groups {
		if k.world == "" {
			continue
		}
		empty, err := j.TaskEmpty(g.name)
		if err == nil && empty && book.idle[g.name] {
			var u cgroup.TaskUsage
			if u, err = j.TaskUsage(g.name); err == nil && (u.OOMKills == nil || *u.OOMKills == 0) {
				err = j.RemoveTask(g.name)
			}
		}
		if !errors.Is(err, cgroup.ErrBusy) && !errors.Is(err, cgroup.ErrNotFound) {
			errs = append(errs, err)
		}
		idle[g.name] = err == nil && empty
	}
	book.idle = idle
	return errors.Join(errs...)
}
