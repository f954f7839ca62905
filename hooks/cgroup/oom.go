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

// oomLines limits the lines on the job's stderr while the job runs. Kills beyond that are reported
// as a count.
const oomLines = 8

// oomMark is the extended attribute of a job's cgroup that holds its oomReport.
const oomMark = "trusted.hookhost.oom"

// oomReport reports the kernel's out-of-memory kills in a job. It is written to the cgroup before
// it is sent. So every periodic, a restarted hook and the epilogue all use the same words. The host
// recognizes a kill that was already reported by these words, which are different for each kill.
type oomReport struct {
	Kills int64    `json:"kills"` // the kills that the lines cover, as counted by the kernel
	Twice int64    `json:"twice"` // how many of these are repeated counts of a process
	Seq   uint64   `json:"seq"`   // newest record of the kernel's log in the lines
	Lines []string `json:"lines"`
	Ranks []int    `json:"ranks,omitempty"` // the ranks that they name

	killedIn []int // ranks in whose cgroups the kernel killed; only if ranks have cgroups
}

// noteOOM records kills as soon as the kernel has counted them, because its log may soon lose the
// lines.
func (h *hook) noteOOM(ctx context.Context, j *cgroup.Job, kills int64) {
	m, _ := j.JobMark() // without it, kills of an earlier run may be taken for new ones
	u, err := j.Usage()
	if errors.Is(err, cgroup.ErrNotFound) { // the job is over
		return
	}
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	u.OOMKills = &kills
	h.extendOOM(ctx, j, m, u, false) // fails if the job is ending; then its epilogue reports
}

// reportKills returns the reasons why processes were killed for exceeding memory, by the kernel or
// by the follower, and the lines for the job's owner. It sets the number of kernel kills in u. last
// means that this is the last report.
func (h *hook) reportKills(
	ctx context.Context, j *cgroup.Job, s state, u *hostapi.HostUsage, counters cgroup.Usage, last bool,
) (diag string, lines []string) {
	var reasons []string
	if u.OOMKills != nil && *u.OOMKills > 0 {
		t, err := h.extendOOM(ctx, j, s.JobMark, counters, last)
		if err != nil {
			h.logOf(j.ID()).Warn(err)
		}
		u.OOMKills, reasons, lines = t.killed(*counters.OOMKills), t.reasons(), t.Lines
	}
	if text := h.killReason(j); text != "" {
		reasons, lines = append(reasons, strings.TrimPrefix(text, "=>> PBS: ")), append(lines, text)
	}
	return strings.Join(reasons, ", "), lines
}

// killed returns how many processes were killed, given the kernel's count. With memory.oom.group
// the kernel first kills, counts and logs the process that it chose, and then again with the rest
// of the cgroup. If another thread hit the limit meanwhile, this happens once more for all of them
// (mm/oom_kill.c, oom_kill_process). The kernel's log shows which ones.
func (t *oomReport) killed(counted int64) *int64 {
	n := max(max(counted, t.Kills)-t.Twice, 1)
	return &n
}

// oomReport reads the report of the job's kills. It returns an empty one if the report is lost.
func (h *hook) oomReport(j *cgroup.Job) (t oomReport) {
	b, err := j.Mark(oomMark)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warnf("read the report of OOM kills: %v: kills may be reported again", err)
	}
	return t
}

// extendOOM extends the report of the job's kills up to the count in u. last means that this is the
// last report. The counters show that the kernel killed. The log shows which processes, if it still
// has the lines.
func (h *hook) extendOOM(
	ctx context.Context, j *cgroup.Job, m cgroup.JobMark, u cgroup.Usage, last bool,
) (oomReport, error) {
	release, err := h.wait(ctx, j.ID(), func(e *job) turn { return e.oomTurn })
	if err != nil {
		return h.oomReport(j), err
	}
	defer release()
	t := h.oomReport(j)
	if *u.OOMKills <= t.Kills || !last && len(t.Lines) >= oomLines {
		return t, nil
	}
	records, err := h.logged(ctx, j, m.BegunMicros, t, &u, last)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	if int64(len(records)) > *u.OOMKills-t.Kills { // there have been more kills since, or some belong to an earlier run
		if now, err := j.Usage(); err == nil && now.OOMKills != nil {
			u.OOMKills = now.OOMKills
		}
	}
	if m.PerTask {
		t.killedIn = h.ranksKilled(j)
	}
	had := len(t.Lines)
	t.add(u, records, last)
	for _, line := range t.Lines[had:] {
		h.logOf(j.ID()).Info(line)
	}
	b, err := json.Marshal(t)
	if err == nil {
		err = j.SetMark(oomMark, b)
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warn(err)
	}
	return t, nil
}

// The kernel counts a kill shortly before it logs it (mm/oom_kill.c, __oom_kill_process). When it
// logs many kills, it leaves out their summaries, so waiting for them would be useless. In that
// case more kills are about to follow, and all are reported together.
const (
	logLag     = 2 * time.Millisecond // at first; doubles each time
	logLooks   = 4
	logGivesUp = 20 * time.Millisecond // before the last attempt
)

// logged returns the records of kills that the report lacks. At the end of a job the records are
// either there or lost. If there are fewer records than kills, logged reads the count in u again.
func (h *hook) logged(
	ctx context.Context, j *cgroup.Job, since int64, t oomReport, u *cgroup.Usage, last bool,
) ([]oomKill, error) {
	r, err := h.kmsg()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	log := oomLog{path: j.MemoryPath(), since: since}
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

// add writes one line per kill, in the words of pbs_cgroups, and one for the number of kills
// without a line. While the job runs, it writes at most oomLines lines. The last call also writes
// the lines that were left out.
func (t *oomReport) add(u cgroup.Usage, records []oomKill, last bool) {
	fresh := *u.OOMKills - t.Kills
	// The log may also have kills from an earlier run of the job. The last ones belong to this run.
	records = records[max(0, int64(len(records))-fresh):]
	unlogged := fresh - int64(len(records))
	limit, at := limitHit(u), len(t.Lines)
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
		case k.inside:
			what = "Cgroup mem limit inside the job exceeded"
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

// ofRanks returns the end of a line about kills in these ranks.
func (t *oomReport) ofRanks(ranks []int) string {
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

// addLine adds a line. If the same words were used before, it changes them.
func (t *oomReport) addLine(line string) {
	if slices.Contains(t.Lines, line) {
		line += fmt.Sprintf(" [kill %d]", t.Kills)
	}
	t.Lines = append(t.Lines, line)
}

// reasons names the limits that were exceeded, in the order of the lines.
func (t *oomReport) reasons() (what []string) {
	for _, line := range t.Lines {
		if w, _, _ := strings.Cut(line, ": "); !slices.Contains(what, w) {
			what = append(what, w)
		}
	}
	return what
}

// notItsOwn is the reason given if the limit of all jobs or the host's memory was exhausted and the
// log does not say which.
const notItsOwn = "Memory of all jobs or of the host exhausted"

// limitHit names the limit that was hit, in the words of pbs_cgroups. A failcnt alone does not mean
// a kill: it only shows which limit was hit when there was one. If both limits are equal, the
// answer is mem, which the job requested. With swap accounting v1 does not count every hit (see
// internal/kernfs/kernfstest, hit).
func limitHit(u cgroup.Usage) string {
	positive := func(n *int64) bool { return n != nil && *n > 0 }
	if u.OwnOOM != nil && *u.OwnOOM == 0 {
		return notItsOwn
	}
	if u.MemFailcnt != nil && *u.MemFailcnt == 0 && u.MemSwapFailcnt == nil {
		return notItsOwn
	}
	both := u.MemLimit != nil && u.MemSwapLimit != nil && *u.MemSwapLimit <= *u.MemLimit
	if !both && !positive(u.MemFailcnt) && positive(u.MemSwapFailcnt) {
		return "Cgroup memsw limit exceeded"
	}
	return "Cgroup mem limit exceeded"
}
