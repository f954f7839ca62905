package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// oomLines bounds what the job's stderr gets while the job runs; the count tells the rest.
const oomLines = 8

// oomMark is the extended attribute of a job's cgroup that holds its oomTale.
const oomMark = "trusted.hookhost.oom"

// oomTale is what was reported of the kills that the kernel made in a job for lack of memory. The
// tale is on the cgroup before anybody hears of it. So a later kill's notice, a restarted hook and
// epilogue all report it in the same words. The host knows a kill that was reported already by its
// words. No two kills have the same.
type oomTale struct {
	Kills int64    `json:"kills"` // that the lines are about, as the kernel counts
	Twice int64    `json:"twice"` // of these, counted of a process that had been counted before
	Seq   uint64   `json:"seq"`   // of the newest record of the kernel's log that they hold
	Lines []string `json:"lines"`
	Ranks []int    `json:"ranks,omitempty"` // that they name

	killedIn []int // ranks in whose cgroups the kernel has killed, where ranks have some
}

// noticeOOM reports kills as soon as the kernel has counted them. Kills that were reported before
// are reported again: the host may not have got them.
func (h *hook) noticeOOM(ctx context.Context, j *cgroup.Job, kills int64) {
	r, _ := j.JobMark() // if this fails, older kills of the same job may be taken for new
	s := state{JobMark: r}
	u, counters, err := h.measure(j, s)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	if u == nil { // the job is over
		return
	}
	counters.OOMKills = &kills
	t, err := h.tale(ctx, j, s, counters, false)
	if err != nil { // the job ends, and its epilogue tells
		return
	}
	u.OOMKills = t.killed(kills)
	if t.Kills >= kills { // a line for each that the job is told of now: a job may have many
		h.logOf(j.ID()).Infof("processes that the kernel has killed for lack of memory: %d", *u.OOMKills)
	}
	h.tell(j.ID(), &hostapi.JobUpdate{
		ResourcesUsed: h.policy.resourcesUsed(u, 0), Usage: u, Diag: t.diag(), JobStderr: t.Lines, Notes: t.Lines,
	})
}

// reportOOM adds to the outcome of the job's end what is to be said about kills.
func (h *hook) reportOOM(out *hostapi.Outcome, j *cgroup.Job, s state, u cgroup.Usage) {
	t, err := h.tale(context.Background(), j, s, u, true)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
		return
	}
	out.Usage.OOMKills = t.killed(*u.OOMKills)
	out.Diag, out.JobStderr, out.Notes = t.diag(), t.Lines, append(out.Notes, t.Lines...)
}

// killed is how many processes the kernel has killed that counts so many kills. With
// memory.oom.group it kills, counts and logs the process that it chose once more among all of the
// cgroup. For another thread that met the limit meanwhile it does so with all of them again
// (mm/oom_kill.c, oom_kill_process). The kernel's log tells which.
func (t *oomTale) killed(counted int64) *int64 {
	n := max(max(counted, t.Kills)-t.Twice, 1)
	return &n
}

// told is what was told of the job; nothing where that is lost.
func (h *hook) told(j *cgroup.Job) (t oomTale) {
	b, err := j.Mark(oomMark)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warnf("what was told of kills is lost: %v", err)
	}
	return t
}

// tale goes on with what was told of the job, up to the kills of u; last says that nobody will
// again. Counters say that the kernel killed; its log says whom, as far as it still holds the
// lines.
func (h *hook) tale(ctx context.Context, j *cgroup.Job, s state, u cgroup.Usage, last bool) (oomTale, error) {
	release, err := h.wait(ctx, j.ID(), func(e *job) turn { return e.tale })
	if err != nil {
		return oomTale{}, err
	}
	defer release()
	t := h.told(j)
	if *u.OOMKills <= t.Kills {
		return t, nil
	}
	records, err := h.logged(ctx, j, s, t, &u, last)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	if int64(len(records)) > *u.OOMKills-t.Kills { // the kernel has gone on meanwhile, or these are an earlier run's
		if now, err := j.Usage(); err == nil && now.OOMKills != nil {
			u.OOMKills = now.OOMKills
		}
	}
	if s.PerTask {
		t.killedIn = h.ranksKilled(j)
	}
	t.add(u, records, last)
	b, err := json.Marshal(t)
	if err == nil {
		err = j.SetMark(oomMark, b)
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warn(err)
	}
	return t, nil
}

// The kernel counts a kill before it logs it (mm/oom_kill.c, __oom_kill_process), in the same
// breath. A kernel that logs many leaves out their summaries, and waiting is in vain. More of them
// are on their way then, and reported together.
const (
	logLag     = 2 * time.Millisecond // at first; twice as long each time
	logLooks   = 4
	logGivesUp = 20 * time.Millisecond // before the last look
)

// logged returns the records of the kills that the tale does not hold yet. At the end of a job they
// are there or lost. If there are fewer than kills, the kills are counted again in u.
func (h *hook) logged(
	ctx context.Context, j *cgroup.Job, s state, t oomTale, u *cgroup.Usage, last bool,
) ([]oomKill, error) {
	r, err := h.kmsg()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	log := oomLog{path: j.MemoryPath(), since: s.BegunMicros}
	for look := 1; ; look++ {
		if look > logLooks {
			if now, err := j.Usage(); err == nil && now.OOMKills != nil {
				u.OOMKills = now.OOMKills
			}
		}
		err := log.read(r)
		records := slices.DeleteFunc(slices.Clone(log.kills), func(k oomKill) bool { return k.seq <= t.Seq })
		if err != nil || last || look > logLooks || int64(len(records)) >= *u.OOMKills-t.Kills {
			return records, err
		}
		lag := logLag << (look - 1)
		if look == logLooks {
			lag = logGivesUp
		}
		select {
		case <-time.After(lag):
		case <-ctx.Done():
			return records, nil
		}
	}
}

// add puts kills into words: those of pbs_cgroups, a line each, and the number of those that there
// is no line of. While the job runs it stops at oomLines; what it leaves out then is for the last
// time.
func (t *oomTale) add(u cgroup.Usage, records []oomKill, last bool) {
	fresh := *u.OOMKills - t.Kills
	// The log may tell of an earlier run of the job as well; the last ones are this one's.
	records = records[max(0, int64(len(records))-fresh):]
	unlogged := fresh - int64(len(records))
	limit, at := exceeded(u), len(t.Lines)
	for _, k := range records {
		if len(t.Lines) >= oomLines {
			break
		}
		what := limit
		switch {
		case k.global:
			what = "Host memory exhausted"
		case k.parent:
			what = "Cgroup mem limit of all jobs exceeded"
		}
		t.Kills, t.Seq = t.Kills+1, max(t.Seq, k.seq)
		if k.again {
			t.Twice++
			continue
		}
		t.addLine(what + ": " + k.line + t.ofRanks(k.ranks))
	}
	rest := *u.OOMKills - t.Kills
	if rest <= 0 || !last && (unlogged == 0 || len(t.Lines) >= oomLines) {
		return
	}
	if len(t.Lines) > at {
		limit, _, _ = strings.Cut(t.Lines[at], ": ")
	}
	line := fmt.Sprintf("%s: and %d more of the job's processes", limit, rest)
	if t.Kills == 0 {
		line = fmt.Sprintf("%s: the kernel killed %d of the job's processes", limit, rest)
		if u.MemLimit != nil && limit != notItsOwn {
			line += fmt.Sprintf(" (limit %s)", pbs.Size(*u.MemLimit).KB())
		}
	}
	t.Kills += rest
	t.addLine(line + t.ofRanks(slices.DeleteFunc(slices.Clone(t.killedIn),
		func(n int) bool { return slices.Contains(t.Ranks, n) })))
}

// ofRanks is what a line ends with about these ranks.
func (t *oomTale) ofRanks(ranks []int) string {
	if len(ranks) == 0 {
		return ""
	}
	var list []string
	for i, n := range ranks {
		if i == oomLines {
			list = append(list, "...")
			break
		}
		list = append(list, strconv.Itoa(n))
		if !slices.Contains(t.Ranks, n) {
			t.Ranks = append(t.Ranks, n)
		}
	}
	what := "rank"
	if len(ranks) > 1 {
		what = "ranks"
	}
	return fmt.Sprintf(" (%s %s)", what, strings.Join(list, ", "))
}

// addLine adds a line in words that were not used before.
func (t *oomTale) addLine(line string) {
	if slices.Contains(t.Lines, line) {
		line += fmt.Sprintf(" [kill %d]", t.Kills)
	}
	t.Lines = append(t.Lines, line)
}

// diag names what was exceeded, in the order in which it was.
func (t *oomTale) diag() string {
	var what []string
	for _, line := range t.Lines {
		if w, _, _ := strings.Cut(line, ": "); !slices.Contains(what, w) {
			what = append(what, w)
		}
	}
	return strings.Join(what, ", ")
}

// notItsOwn stands for the limit of all jobs and for the host's memory if the log does not tell
// which it was.
const notItsOwn = "Memory of all jobs or of the host exhausted"

// exceeded names the limit that was hit, in the words of pbs_cgroups. failcnt alone is no kill, it
// only tells limits apart once there was one. If both are the same, mem is what the job asked for.
// With swap accounting v1 does not count each hit (see internal/kernfs/kernfstest, hit).
func exceeded(u cgroup.Usage) string {
	positive := func(n *int64) bool { return n != nil && *n > 0 }
	if u.MemFailcnt != nil && *u.MemFailcnt == 0 && u.MemSwapFailcnt == nil {
		return notItsOwn
	}
	both := u.MemLimit != nil && u.MemSwapLimit != nil && *u.MemSwapLimit <= *u.MemLimit
	if !both && !positive(u.MemFailcnt) && positive(u.MemSwapFailcnt) {
		return "Cgroup memsw limit exceeded"
	}
	return "Cgroup mem limit exceeded"
}
