package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/doctor"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// examineElsewhere tells of jobs in the tree that are recorded in other state directories, a finding for each of those.
func examineElsewhere(tree *cgroup.Tree, state nodestate.Dir) []doctor.Finding {
	ids, err := tree.JobIDs()
	if err != nil {
		return nil // told with the cgroups
	}
	jobs := map[string][]string{}
	for _, id := range ids {
		job, err := tree.Job(id)
		if err != nil {
			continue
		}
		if m, err := job.Maker(); err == nil && m.State.Apart(state) {
			jobs[m.State.Dir] = append(jobs[m.State.Dir], id)
		}
	}
	var findings []doctor.Finding
	for _, dir := range slices.Sorted(maps.Keys(jobs)) {
		findings = append(findings, doctor.Finding{What: "jobs of another host", Status: doctor.Degraded, Found: fmt.Sprintf("%s: recorded in %s, as their cgroups say. From %s they are left alone, but for what is recorded there too", strings.Join(few(jobs[dir]), ", "), dir, state),
			Advice: "two hookhosts want two prefixes in [cgroup]; or start one with HOOKHOST_STATE=" + dir + ". If nobody is to work with that directory any more, rename it: then the jobs are this one's"})
	}
	return findings
}

// few cuts a list for people short.
func few(ids []string) []string {
	const most = 5
	if len(ids) <= most {
		return ids
	}
	return append(slices.Clone(ids[:most]), fmt.Sprintf("%d more", len(ids)-most))
}
