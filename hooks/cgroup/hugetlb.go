package main

import (
	"maps"
	"slices"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// hugetlb returns what the job asked for of huge pages, by page size: hpmem is of the kernel's
// default size.
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

// hugeTotal is what all jobs together may have of huge pages of one size, in whole pages.
// reserve_amount is kept of the default size, as hpmem is.
func (p *policy) hugeTotal(h host, page int64) int64 {
	share := p.Hugetlb.Share
	if page != h.hugePages.Default {
		share.ReserveAmount = 0
	}
	total := share.Left(h.hugePages.Total[page])
	return total - total%page
}

// decideHugetlb bounds every size of huge pages that the kernel has. A size that nobody asked for
// gets the configured default, which only hpmem's size has. A limit of all there is counts as
// nothing, as with mem.
func (p *policy) decideHugetlb(l *cgroup.Limits, h host, a ask, others []holding) error {
	if !p.Hugetlb.Enabled {
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
			if part := limit % page; part > 0 && limit <= total { // a part of a page takes a page
				limit += page - part
			}
			free := total
			for _, o := range others {
				free -= o.hugeHeld(page, total)
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

// hugeHeld is what the job holds of huge pages of one size, of which all jobs may have total. A
// limit of all there is counts as nothing unless the job has asked for it.
func (o holding) hugeHeld(page, total int64) int64 {
	if n := o.limits.Hugetlb[page]; n < total || o.pages[page] {
		return n
	}
	return 0
}

// fillPages fills in which huge pages jobs have asked for that may have all there are or more.
// After a reload with a larger reserve a job may have been granted more than all jobs may have by
// now.
func (h *hook) fillPages(there host, jobs []holding) {
	for i, o := range jobs {
		doubt := false
		for page := range there.hugePages.Total {
			n := o.limits.Hugetlb[page]
			doubt = doubt || n > 0 && n >= h.policy.hugeTotal(there, page)
		}
		if !doubt {
			continue
		}
		m, err := o.job.JobMark()
		if err != nil {
			continue // made by hand
		}
		a, err := h.policy.askedIn(m)
		if err != nil {
			continue
		}
		jobs[i].pages = map[int64]bool{}
		for page := range a.hugetlb(there.hugePages.Default) {
			jobs[i].pages[page] = true
		}
	}
}

// hugeDefault is the limit of a job that did not ask for pages of that size.
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

// hugeShortage is exceeds for huge pages.
func hugeShortage(h host, page, want, free, total int64) error {
	name := "hpmem"
	if page != h.hugePages.Default {
		name = hpmemOf + pbs.Size(page).KB()
	}
	return exceeds(name+" limit (%s) exceeds available (%s)", want, free, total)
}
