package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report/reporttest"
)

// caseRecord is the record of a job of an hour, for the cases below to change.
func caseRecord(id, name string, change func(*jobstate.Record)) *jobstate.Record {
	return record(func(r *jobstate.Record) {
		r.Job = &hostapi.Job{ID: id, Name: name, Owner: hostapi.Owner{User: "alice", UID: 1000, GID: 1000},
			Queue: "workq", Project: "climate", Account: "phys-12", SessionID: 4711, RunCount: 1, MotherSuperior: true,
			ExecVnode: "(n1:ncpus=8:mem=16777216kb)", ExecHost2: "n1.cluster:15002/0*8",
			ResourceList: hostapi.Resources{"ncpus": "8", "mem": "16gb", "walltime": "02:00:00", "nodect": "1",
				"place": "pack", "select": "1:ncpus=8:mem=16gb"}}
		r.Launched, r.Ended = moment(begun), moment(begun.Add(time.Hour))
		r.Hosts = map[string]*hostapi.HostUsage{"n1": caseHost(27900, 13<<30)}
		change(r)
	})
}

func caseHost(cput float64, mem int64) *hostapi.HostUsage {
	h := other(8, cput, mem, 16<<30)
	h.OOMKills, h.ThrottledSeconds = ptr(int64(0)), ptr(0.0)
	h.MemSource = "anonymous and shared memory, sampled"
	return h
}

// cases are jobs as operators know them. Their reports are in docs/reports.md.
var cases = withCourses(map[string]*jobstate.Record{
	"steady": caseRecord("101.srv", "spectral", func(r *jobstate.Record) {
		r.Hosts["n1"].EnergyJoules, r.Hosts["n1"].Billing = ptr(640_000.0), ptr(52.0)
		r.Hosts["n1"].Devices = []hostapi.DeviceUsage{
			{ID: "GPU-1", Resource: "ngpus", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:07:00.0",
				UtilizationPercent: ptr(91.4), MemPeakBytes: ptr(int64(30 << 30)), EnergyJoules: ptr(1_120_000.0)},
			{ID: "GPU-2", Resource: "ngpus", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:0f:00.0",
				UtilizationPercent: ptr(88.0), MemPeakBytes: ptr(int64(29 << 30)), EnergyJoules: ptr(1_090_000.0)}}
	}),
	"leaking": caseRecord("102.srv", "assemble", func(r *jobstate.Record) {
		h := r.Hosts["n1"]
		h.CPUTSeconds, h.MemBytes, h.OOMKills, h.CgroupPeakBytes = ptr(21000.0), ptr(int64(16<<30)), ptr(int64(1)),
			ptr(int64(16<<30))
		r.ExitStatus = ptr(137)
		r.Diag = map[string]string{"n1": "Cgroup mem limit exceeded: Killed process 4711 (assemble) " +
			"total-vm:18874368kB, anon-rss:16777216kB, file-rss:1024kB"}
	}),
	"bursty": caseRecord("103.srv", "pipeline", func(r *jobstate.Record) {
		h := r.Hosts["n1"]
		h.CPUTSeconds, h.MemBytes, h.ThrottledSeconds = ptr(9300.0), ptr(int64(9<<30)), ptr(4320.0)
		h.CgroupPeakBytes = ptr(int64(16 << 30))
		h.Pressure = &hostapi.Pressure{CPUSome: ptr(700.0), IOSome: ptr(1260.0), MemorySome: ptr(2.0)}
	}),
	"imbalanced": caseRecord("104.srv", "solver", func(r *jobstate.Record) {
		r.Hosts = map[string]*hostapi.HostUsage{"n1": caseHost(27900, 12<<30), "n2": caseHost(14100, 11<<30),
			"n4": caseHost(9000, 11<<30)}
		r.Job.ExecVnode = "(n1:ncpus=8:mem=16777216kb)+(n2:ncpus=8:mem=16777216kb)+(n4:ncpus=8:mem=16777216kb)"
		r.Job.ExecHost2 = "n1.cluster:15002/0*8+n2.cluster:15002/0*8+n4.cluster:15002/0*8"
		r.Job.ResourceList = hostapi.Resources{"ncpus": "24", "mem": "48gb", "walltime": "02:00:00", "nodect": "3",
			"place": "scatter", "select": "3:ncpus=8:mem=16gb"}
	}),
	"idle": caseRecord("105.srv", "sleep", func(r *jobstate.Record) {
		r.Hosts["n1"].CPUTSeconds, r.Hosts["n1"].MemBytes = ptr(0.4), ptr(int64(6<<20))
	}),
})

// The archived report of each case is read from its file, and written in each
// format of lines.
func TestReportsOfCasesAreAsTheGoldenFilesInEachFormat(t *testing.T) {
	must.NoError(t, os.MkdirAll(filepath.Join("testdata", "cases"), 0o755))
	for name, rec := range cases {
		archive, err := json.MarshalIndent(fromRecord(rec, rec.Ended.Wall), "", "  ")
		must.NoError(t, err)
		golden(t, filepath.Join("cases", name+".archive.json"), append(archive, '\n'))
		kept, err := os.ReadFile(filepath.Join("testdata", "cases", name+".archive.json"))
		must.NoError(t, err)
		r, err := FromArchive(kept)
		must.NoError(t, err)
		for format, ending := range map[string]string{"text": "txt", "csv": "csv", "pbs": "pbs"} {
			f, err := FormatNamed(format)
			must.NoError(t, err)
			var b bytes.Buffer
			must.NoError(t, f(&b, slices.Values([]*Report{r})))
			golden(t, filepath.Join("cases", name+"."+ending), b.Bytes())
		}
		var line, compact bytes.Buffer
		must.NoError(t, r.WriteJSON(&line), json.Compact(&compact, kept))
		must.Equal(t, name+": the JSON is what was archived", compact.String()+"\n", line.String())
		if _, err := reporttest.ReadAccounting(strings.TrimSuffix(accountingOf(t, r), "\n")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Messages of the kernel's stand whole, so that people can search for them.
func TestTextHasNoLineWiderThanItsPage(t *testing.T) {
	records := map[string]*jobstate.Record{}
	for _, tt := range goldens {
		records[tt.name] = tt.rec
	}
	for name, rec := range cases {
		records[name] = rec
	}
	for name, rec := range records {
		for _, columns := range []int{0, 80, 132} {
			var b bytes.Buffer
			must.NoError(t, Text(columns, false)(&b, slices.Values([]*Report{fromRecord(rec, rec.Ended.Wall)})))
			for line := range strings.Lines(b.String()) {
				width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
				if width > max(columns, 80) && !strings.Contains(line, "Cgroup mem limit exceeded") {
					t.Errorf("%s at %d: %d columns: %s", name, columns, width, line)
				}
			}
		}
	}
}

func TestTextOfManyHostsShowsThoseThatStandOut(t *testing.T) {
	rec := caseRecord("106.srv", "wide", func(r *jobstate.Record) {
		r.Hosts = map[string]*hostapi.HostUsage{}
		for i := range 60 {
			r.Hosts[fmt.Sprintf("node%03d", i)] = caseHost(20000+10*float64(i%7), 12<<30)
		}
		r.Hosts["node017"].CPUTSeconds = ptr(400.0)
		r.Hosts["node042"].OOMKills = ptr(int64(2))
	})
	var b bytes.Buffer
	must.NoError(t, fromRecord(rec, rec.Ended.Wall).WriteText(&b))
	golden(t, "many-hosts.txt", b.Bytes())
	if n := strings.Count(b.String(), "\n"); n > 30 {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{"  node017 [", "2 OOM kills", "  59 more between 69% and 70%\n",
		"  59 more at 75%\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}
