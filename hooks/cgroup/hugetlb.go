package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

var hugetlbResource = resource{
	ask: (*ask).addHuge,
	offer: func(h *hook, there *host) (err error) {
		if h.policy.Hugetlb.Enabled {
			there.hugePages, err = topology.ScanHugePages(h.roots)
		}
		return err
	},
	decide: (*policy).decideHugetlb,
	parent: (*policy).limitHugetlbOfAll,
}

// hpmemOf starts the names of resources that include the size of their huge pages: hpmem_2mb,
// hpmem_1gb.
const hpmemOf = "hpmem_"

// addHuge adds huge pages of named sizes. A resource that names no size belongs to the site.
func (a *ask) addHuge(*hostapi.Job) error {
	for name, v := range a.Other {
		text, ok := strings.CutPrefix(name, hpmemOf)
		page, err := pbs.ParseSize(text)
		if !ok || err != nil || page <= 0 {
			continue
		}
		size, err := pbs.ParseSize(v)
		if err != nil {
			return fmt.Errorf("resource %s=%s: %w", name, v, err)
		}
		if a.huge == nil {
			a.huge = map[int64]pbs.Size{}
		}
		a.huge[int64(page)] = plus(a.huge[int64(page)], size)
	}
	return nil
}

// hugetlb returns the huge pages that the job asked for, by page size. hpmem is in pages of the
// kernel's default size.
func (a ask) hugetlb(defaultSize int64) map[int64]pbs.Size {
	asked := maps.Clone(a.huge)
	if a.HPMem != nil {
		if asked == nil {
			asked = map[int64]pbs.Size{}
		}
		asked[defaultSize] = plus(asked[defaultSize], *a.HPMem)
	}
	return asked
}

// hugeTotal returns how much of one page size all jobs together may have, in whole pages. Like
// hpmem, reserve_amount applies only to the default size.
func (p *policy) hugeTotal(h host, page int64) int64 {
	share := p.Hugetlb.Share
	if page != h.hugePages.Default {
		share.ReserveAmount = 0
	}
	total := share.Left(h.hugePages.Total[page])
	return total - total%page
}

// decideHugetlb limits every page size that the kernel has. A size that the job did not request
// gets the configured default, which exists only for hpmem's size. As with mem, a limit that equals
// the total reserves nothing.
func (p *policy) decideHugetlb(got *assignment, h host, others []holding) error {
	l, a := &got.limits, got.ask
	if !p.Hugetlb.Enabled {
		if a.HPMem != nil && *a.HPMem > 0 || len(a.huge) > 0 {
			got.noteUnenforced("hpmem", "hugetlb", false)
		}
		return nil
	}
	asked := a.hugetlb(h.hugePages.Default)
	for _, page := range slices.Sorted(maps.Keys(asked)) {
		if _, has := h.hugePages.Total[page]; !has {
			if err := hugeShortage(h, page, int64(asked[page]), 0, 0); err != nil {
				return err
			}
		}
	}
	for _, page := range slices.Sorted(maps.Keys(h.hugePages.Total)) {
		total := p.hugeTotal(h, page)
		limit := p.hugeDefault(h, a, page, total)
		if want, ok := asked[page]; ok {
			limit = int64(want)
			if part := limit % page; part > 0 && limit <= total { // a partial page needs a whole one
				limit += page - part
			}
			free := total
			for _, o := range others {
				free -= o.limits.Hugetlb[page]
			}
			if err := hugeShortage(h, page, limit, max(0, free, a.had.Hugetlb[page]), total); err != nil {
				return err
			}
		}
		if l.Hugetlb == nil {
			l.Hugetlb = map[int64]int64{}
		}
		l.Hugetlb[page] = limit
	}
	return nil
}

// hugeHeld returns the huge pages that a job with limits l holds. A limit that equals the total
// counts only if the job requested it.
func (p *policy) hugeHeld(h host, l cgroup.Limits, a ask) map[int64]int64 {
	held := maps.Clone(l.Hugetlb)
	asked := a.hugetlb(h.hugePages.Default)
	maps.DeleteFunc(held, func(page, n int64) bool {
		_, is := asked[page]
		return !is && n >= p.hugeTotal(h, page)
	})
	return held
}

// hugeDefault returns the limit for a page size that the job did not request.
func (p *policy) hugeDefault(h host, a ask, page, total int64) int64 {
	switch {
	case !p.Hugetlb.EnforceDefault, p.Hugetlb.ExclhostIgnoreDefault && a.exclhost:
		return total
	case page != h.hugePages.Default:
		return 0
	}
	limit := int64(p.Hugetlb.Default)
	return min(total, limit-limit%page)
}

// hugeShortage is the counterpart of exceeds for huge pages.
func hugeShortage(h host, page, want, free, total int64) error {
	name := "hpmem"
	if page != h.hugePages.Default {
		name = hpmemOf + pbs.Size(page).KB()
	}
	return exceeds(name+" limit (%s) exceeds available (%s)", want, free, total)
}

func (p *policy) limitHugetlbOfAll(l *cgroup.Limits, h host, jobs []holding) {
	if !p.Hugetlb.Enabled {
		return
	}
	l.Hugetlb = map[int64]int64{}
	for page := range h.hugePages.Total {
		total, held := p.hugeTotal(h, page), int64(0)
		for _, o := range jobs {
			held += o.limits.Hugetlb[page]
		}
		l.Hugetlb[page] = max(total, held)
	}
}
