package cgroup

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// FuzzMeter reads each file of a job's counters in the way that the points of its series are read.
// The report uses another reader. If both accept a text, they read the same values.
func FuzzMeter(f *testing.F) {
	for _, text := range []string{
		"usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n", "anon 4096\nfile 8192\nshmem 4096\n",
		"rss 4096\ncache 8192\nshmem 0\ntotal_rss 4096\ntotal_cache 8192\ntotal_shmem 1\n",
		"8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n253:1 rbytes=1 wbytes=2\n",
		"8:0 Read 4096\n8:0 Write 512\n8:0 Total 4608\nTotal 4608\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
		"", "\n\n", "some total=-1", "usage_usec\n", "8:0 rbytes=", "18446744073709551615\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := []byte(text)
		m := &Meter{now: nothing}
		keyed, keyedErr := kernfs.ParseKeyed(b)
		same := func(what string, got float64, want uint64, there bool, unit float64) {
			if there && got != float64(want)/unit {
				t.Errorf("%q: %s is %v here and %d there", text, what, got, want)
			}
		}
		plain := strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_.=\n ") == "" &&
			!strings.Contains(text, "  ") && !strings.Contains("\n"+text, "\n ")
		if err := m.cpu(b); err == nil && keyedErr == nil && plain {
			want, there := keyed["usage_usec"]
			same("usage_usec", m.now.CPU, want, there, 1e6)
		}
		files := &memoryFiles{anon: "anon", shmem: "shmem", file: "file"}
		if err := m.memory(files, b); err == nil && keyedErr == nil && plain {
			want, there := keyed["anon"]
			same("anonymous and shared memory", m.now.RSS, want+keyed["shmem"], there && want < 1<<50 &&
				keyed["shmem"] < 1<<50, 1)
		}
		some := math.NaN()
		totals, err := parsePressure(text)
		if parseSome(&some, b) == nil && err == nil && plain {
			want, there := totals["some"]
			same("some", some, want, there, 1e6)
		}
		for _, read := range []func([]byte) error{m.io, m.blkio} {
			m.now = nothing
			if read(b) == nil && (m.now.ReadBytes < 0 || m.now.WriteBytes < 0) {
				t.Errorf("%q: %v, %v bytes", text, m.now.ReadBytes, m.now.WriteBytes)
			}
		}
		var n float64
		want, numberErr := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err := parseNumber(&n, b, 1); (err == nil) != (numberErr == nil) || err == nil && n != float64(want) {
			t.Errorf("%q is %v, want %d: %v", text, n, want, err)
		}
	})
}

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
