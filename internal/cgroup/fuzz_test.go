package cgroup

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

// FuzzJobOf reads /proc/PID/cgroup, in which a user with a delegated cgroup has chosen some names.
// A process is in a job only below the parent of all jobs, whatever the rest of the path is.
func FuzzJobOf(f *testing.F) {
	f.Add("0::/pbs_jobs.service/jobs/12.srv/rank.0\n4:memory:/pbs_jobs.service/jobid/12.srv\n", "x")
	f.Add("0::/user.slice/pbs_jobs.service/jobs/12.srv\n", "pbs_jobs.service/jobs/12.srv")
	f.Add("1:name=systemd:/\n:\n0:", "\n0::/pbs_jobs.service/jobs/1.a")
	v1, v2 := &hierarchy{root: "/", unit: "pbs_jobs.service", leaf: "jobid"},
		&hierarchy{v2: true, root: "/", unit: "pbs_jobs.service", leaf: "jobs"}
	v1.names.Store(&[]string{"memory"})
	v2.names.Store(&[]string{"cpu"})
	tree := &Tree{hierarchies: []*hierarchy{v1, v2}}
	f.Fuzz(func(t *testing.T, text, name string) {
		for h, dir := range tree.parseCgroups(text) {
			id, in := h.jobAt(dir)
			if in && (hostapi.CheckJobID(id) != nil || !strings.Contains(text, h.jobsPath()+"/"+id)) {
				t.Errorf("%q is in job %q", text, id)
			}
		}
		// The kernel does not accept a newline in a cgroup's name (cgroup_mkdir).
		line := "0::/user.slice/user-1000.slice/" + strings.ReplaceAll(name, "\n", "") + "\n"
		if id, in := v2.jobAt(tree.parseCgroups(line)[v2]); in {
			t.Errorf("%q is in job %q", line, id)
		}
	})
}

// FuzzJobMark reads the mark of a job's cgroup.
func FuzzJobMark(f *testing.F) {
	f.Add([]byte(`{"begin":{"event":"execjob_begin","job":{"id":"1.a"}},"granted":{"ncpus":2,"limits":{}}}`))
	f.Add([]byte(`{"begin":{"job":{"id":"1.a"}},"granted":{"ncpus":1,"limits":{"cpus":"0-1"}}}`))
	f.Add([]byte(`{"begin":{"job":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseJobMark("1.a", b)
		if err != nil {
			if m.Begin != nil {
				t.Errorf("%q: %+v beside %v", b, m, err)
			}
			return
		}
		if m.Begin.Job.ID != "1.a" {
			t.Errorf("%q is of job %q", b, m.Begin.Job.ID)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseJobMark("1.a", text); err != nil || again.NCPUs != m.NCPUs {
			t.Errorf("%q: %+v, then %+v, %v", b, m, again, err)
		}
	})
}

// FuzzNumbers reads the interface files that contain one value: a limit, cpu.max, huge pages.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"max", "4096", "-1", "max 100000", "50000 100000", "9223372036854771712", "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseBytes(text)
		if err != nil && n != nil || n != nil && (*n < 0 || *n >= unlimited) {
			t.Errorf("%q: %v, %v", text, n, err)
		}
		if again, err := parseBytes(formatBytes(n)); n != nil && (err != nil || *again != *n) {
			t.Errorf("%q is %d, then %v, %v", text, *n, again, err)
		}
	})
}
