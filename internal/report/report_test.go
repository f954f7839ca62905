package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

var (
	zone  = time.FixedZone("CET", 3600)
	begun = time.Date(2026, 3, 1, 12, 0, 0, 123456789, zone)
	ended = begun.Add(10*time.Minute + 3*time.Second)
)

// record returns the record of a job that ran ten minutes on one host and used what it asked for.
func record(change func(*jobstate.Record)) *jobstate.Record {
	rec := &jobstate.Record{
		Job: &hostapi.Job{
			ID: "12.srv", Name: "train", Owner: hostapi.Owner{User: "alice", UID: 1000, GID: 1000}, Queue: "workq",
			MotherSuperior: true,
			ResourceList:   hostapi.Resources{"ncpus": "2", "mem": "64mb", "walltime": "01:00:00"},
		},
		Phase:    hostapi.PhaseExiting,
		Begun:    begun.Add(-time.Second),
		Launched: moment(begun),
		Ended:    moment(ended),
		Hosts: map[string]*hostapi.HostUsage{"n1": {
			CPUs: "0-1", Mems: "0", NCPUs: 2, CPUTSeconds: ptr(1085.7), UserSeconds: ptr(1000.0),
			SystemSeconds: ptr(85.7),
			MemBytes:      ptr(int64(48 << 20)), MemSource: "anonymous and shared memory, sampled",
			VmemBytes:       ptr(int64(60 << 20)),
			CgroupPeakBytes: ptr(int64(60 << 20)), MemLimitBytes: ptr(int64(64 << 20)), OOMKills: ptr(int64(0)),
			PidsPeak: ptr(int64(5)),
			Kill:     &hostapi.KillReport{Signal: "none"},
		}},
		ExitStatus: ptr(0),
	}
	if change != nil {
		change(rec)
	}
	return rec
}

func moment(t time.Time) jobstate.Moment { return jobstate.Moment{Wall: t} }

// fromRecord is FromRecord of a job that ran until end, or runs at a time that nobody knows.
func fromRecord(rec *jobstate.Record, end time.Time) *Report {
	return FromRecord(rec, end, rec.Elapsed(moment(end)))
}

func other(ncpus int, cput float64, mem, limit int64) *hostapi.HostUsage {
	return &hostapi.HostUsage{NCPUs: ncpus, CPUTSeconds: &cput, MemBytes: &mem, MemLimitBytes: &limit}
}

var goldens = []struct {
	name string
	rec  *jobstate.Record
	end  time.Time
}{
	{"plain", record(nil), ended},
	{"running", record(func(r *jobstate.Record) {
		r.Ended, r.ExitStatus = jobstate.Moment{}, nil
		r.ResourcesUsed = hostapi.Resources{"walltime": "00:05:00", "cput": "61.5", "mem": "49152kb",
			"diag_messages": "{}"}
		r.Hosts["n1"].CPUTSeconds, r.Hosts["n1"].MemLimitBytes = ptr(61.5), ptr(int64(8<<30))
	}), time.Time{}},
	{"not started", &jobstate.Record{Job: &hostapi.Job{ID: "7", Owner: hostapi.Owner{UID: 1000}}}, time.Time{}},
	{"rejected", record(func(r *jobstate.Record) {
		r.Job.MotherSuperior, r.Launched, r.ExitStatus, r.Hosts = true, jobstate.Moment{}, ptr(-1), nil
	}), ended},
	{"killed", record(func(r *jobstate.Record) {
		r.ExitStatus = ptr(137)
		r.Hosts["n1"].Kill = &hostapi.KillReport{Signal: "SIGKILL", Seconds: 0.512, Stragglers: 3}
		r.Notes = []string{"walltime limit reached: SIGTERM sent"}
	}), ended},
	{"out of memory", record(func(r *jobstate.Record) {
		r.Ended = moment(begun.Add(3 * time.Second))
		r.ExitStatus = ptr(265)
		r.Hosts["n1"].OOMKills = ptr(int64(1))
		r.Hosts["n1"].MemBytes = ptr(int64(64 << 20))
		r.Hosts["n1"].CPUTSeconds = ptr(0.4)
		r.Diag = map[string]string{"n1": "Cgroup mem limit exceeded"}
		r.Notes = []string{"Cgroup mem limit exceeded: Killed process 4711 (train) total-vm:81920kB, " +
			"anon-rss:65280kB, file-rss:5464kB, shmem-rss:0kB, UID:1000 pgtables:332kB oom_score_adj:0"}
	}), begun.Add(4 * time.Second)},
	{"serial", record(func(r *jobstate.Record) {
		r.Job.ResourceList["ncpus"] = "16"
		r.Hosts["n1"].NCPUs, r.Hosts["n1"].CPUTSeconds = 16, ptr(630.0)
		r.Hosts["n1"].MemLimitBytes, r.Hosts["n1"].MemBytes = ptr(int64(64<<30)), ptr(int64(3<<30))
	}), ended},
	{"hosts", record(func(r *jobstate.Record) {
		r.Hosts["n2"] = other(4, 900, 10<<30, 60<<30)
		r.Hosts["node-with-a-long-name"] = &hostapi.HostUsage{NCPUs: 4, MemLimitBytes: ptr(int64(1 << 30))}
		r.ResourcesUsed = hostapi.Resources{"cput": "00:18:05", "mem": "49152kb", "walltime": "00:10:01",
			"hpmem": "2048kb"}
	}), ended},
	{"hosts that all tell", record(func(r *jobstate.Record) {
		r.Hosts = map[string]*hostapi.HostUsage{"n1": other(4, 900, 10<<30, 60<<30),
			"n2": other(4, 2000, 2<<30, 60<<30)}
	}), ended},
	{"escapes", record(func(r *jobstate.Record) {
		r.Job.Name = "x\x1b]0;owned\x07\n\u202eevil\xff"
		r.Job.Owner.User = "mallory\r"
		r.Diag = map[string]string{"n1\x1b[2J": "\x9b31m\u009b\u2028ok ünï"}
		r.Notes = []string{"a\tb\x00"}
	}), ended},
	{"waits", record(func(r *jobstate.Record) {
		h := r.Hosts["n1"]
		h.HugetlbPeakBytes, h.MajorFaults, h.ThrottledSeconds = ptr(int64(512<<20)), ptr(int64(120_000)), ptr(241.2)
		h.Pressure = &hostapi.Pressure{CPUSome: ptr(61.0), MemorySome: ptr(150.0), MemoryFull: ptr(91.0),
			IOSome: ptr(12.5), IOFull: ptr(3.0)}
	}), ended},
	{"waits not worth telling", record(func(r *jobstate.Record) {
		h := r.Hosts["n1"]
		h.HugetlbPeakBytes, h.MajorFaults, h.ThrottledSeconds = ptr(int64(0)), ptr(int64(3)), ptr(6.0)
		h.Pressure = &hostapi.Pressure{CPUSome: ptr(5.0), MemorySome: ptr(0.0), MemoryFull: ptr(0.0), IOSome: ptr(6.0)}
	}), ended},
	{"waits of hosts", record(func(r *jobstate.Record) {
		r.Hosts["n1"].Pressure = &hostapi.Pressure{MemorySome: ptr(300.0), MemoryFull: ptr(200.0)}
		r.Hosts["n1"].MajorFaults = ptr(int64(1))
		r.Hosts["n2"] = other(2, 1000, 48<<20, 64<<20)
		r.Hosts["n2"].Pressure, r.Hosts["n2"].ThrottledSeconds = &hostapi.Pressure{MemorySome: ptr(60.3),
			IOSome: ptr(120.6)}, ptr(60.0)
	}), ended},
	{"devices", record(func(r *jobstate.Record) {
		r.Hosts["n1"].Devices = []hostapi.DeviceUsage{
			{ID: "GPU-1", Resource: "ngpus", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:07:00.0",
				UtilizationPercent: ptr(62.6), MemPeakBytes: ptr(int64(12_600 << 20)), EnergyJoules: ptr(410_234.5)},
			{ID: "GPU-2", Resource: "ngpus", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:0f:00.0",
				UtilizationPercent: ptr(0.0), MemPeakBytes: ptr(int64(0)), EnergyJoules: ptr(31_600_000.0)},
			{ID: "/dev/fpga0", Resource: "fpga"},
			{ID: "/dev/fpga1", Resource: "fpga", Returned: true},
		}
	}), ended},
	{"devices of hosts", record(func(r *jobstate.Record) {
		r.Hosts["n1"].Devices = []hostapi.DeviceUsage{{ID: "GPU-1", Resource: "ngpus", Model: "AMD Instinct MI250X",
			PCI: "0000:c1:00.0"}}
		r.Hosts["n2"] = other(2, 1000, 48<<20, 64<<20)
		r.Hosts["n2"].Devices = []hostapi.DeviceUsage{{ID: "GPU-2", Resource: "ngpus", PCI: "0000:c1:00.0",
			EnergyJoules: ptr(12.0)}}
	}), ended},
	{"hosts that are missing", record(func(r *jobstate.Record) {
		r.Hosts = map[string]*hostapi.HostUsage{"n1": other(4, 900, 10<<30, 60<<30),
			"n2": other(4, 2000, 2<<30, 60<<30)}
		r.Missing = map[string]string{"n2": "no answer in time",
			"n3": "call host: connect to n3:15020: connect: connection\x1b refused"}
	}), ended},
	{"out of memory on a host", record(func(r *jobstate.Record) {
		r.Hosts = map[string]*hostapi.HostUsage{"n1": other(1, 600, 50<<20, 100<<20),
			"n2": other(1, 590, 100<<20, 100<<20), "n3": other(1, 601, 50<<20, 100<<20)}
		r.Hosts["n2"].OOMKills, r.Hosts["n1"].OOMKills = ptr(int64(1)), ptr(int64(0))
		r.Diag = map[string]string{"n2": "Cgroup mem limit exceeded: oom-kill"}
		r.ExitStatus = ptr(137)
	}), ended},
	{"ranks", record(func(r *jobstate.Record) {
		r.Hosts["n1"].Ranks = []hostapi.RankUsage{{World: "1.0", Rank: 0, PID: 10, Comm: "solver"},
			{World: "1.0", Rank: 2, PID: 11, Comm: "solver"}, {Rank: 0, PID: 20}}
		r.Hosts["n2"] = other(2, 1000, 48<<20, 64<<20)
		r.Hosts["n2"].Ranks = []hostapi.RankUsage{{World: "1.0", Rank: 1, PID: 10, Comm: "solver"},
			{World: "1.0", Rank: 5, PID: 12, Comm: "solver"}}
	}), ended},
	{"ranks that are measured", record(func(r *jobstate.Record) {
		r.Hosts["n1"].Ranks = []hostapi.RankUsage{
			{World: "1.0", Rank: 0, PID: 10, Comm: "solver", CPUTSeconds: ptr(500.5),
				MemPeakBytes: ptr(int64(20 << 20)), OOMKills: ptr(int64(0))},
			{World: "1.0", Rank: 1, PID: 11, Comm: "solver", CPUTSeconds: ptr(499.0),
				MemPeakBytes: ptr(int64(21 << 20)), OOMKills: ptr(int64(1))}}
		r.Hosts["n2"] = other(2, 1000, 48<<20, 64<<20)
		r.Hosts["n2"].Ranks = []hostapi.RankUsage{{World: "1.0", Rank: 2, PID: 10, Comm: "solver",
			CPUTSeconds: ptr(502.5), MemPeakBytes: ptr(int64(3 << 20))}}
	}), ended},
	{"nothing measured", record(func(r *jobstate.Record) {
		r.Hosts, r.ExitStatus = map[string]*hostapi.HostUsage{"n1": nil}, nil
	}), ended},
}

func TestReportsAreAsTheGoldenFiles(t *testing.T) {
	for _, tt := range goldens {
		t.Run(tt.name, func(t *testing.T) {
			r := fromRecord(tt.rec, tt.end)
			var text, line, indented bytes.Buffer
			must.NoError(t, r.WriteText(&text), r.WriteJSON(&line), json.Indent(&indented, line.Bytes(), "", "  "))
			golden(t, tt.name+".txt", text.Bytes())
			golden(t, tt.name+".json", indented.Bytes())
		})
	}
}

// The time that is left is shown of a live job only.
func TestTimeLeft(t *testing.T) {
	for _, tt := range []struct {
		name string
		left *float64
		end  time.Time
		want string
	}{
		{"live", ptr(3300.9), time.Time{}, "Elapsed   00:05:00 of 01:00:00 requested, 8%; 00:55:00 left\n"},
		{"nearly over", ptr(2.34), time.Time{}, "Elapsed   00:05:00 of 01:00:00 requested, 8%; 2.3 s left\n"},
		{"over", ptr(0.0), time.Time{}, "Elapsed   00:05:00 of 01:00:00 requested, 8%; 00:00:00 left\n"},
		{"unlimited", nil, time.Time{}, "Elapsed   00:05:00 of 01:00:00 requested, 8%\n"},
		{"finished", ptr(1.0), ended, "Elapsed   00:05:00 of 01:00:00 requested, 8%\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := fromRecord(record(func(r *jobstate.Record) {
				r.ResourcesUsed = hostapi.Resources{"walltime": "00:05:00"}
			}), tt.end)
			r.WalltimeLeft = tt.left
			var text, line bytes.Buffer
			must.NoError(t, errors.Join(r.WriteText(&text), r.WriteJSON(&line)))
			if !strings.Contains(text.String(), tt.want) {
				t.Errorf("%s has no %q", &text, tt.want)
			}
			if got := strings.Contains(line.String(), `"walltime_left_seconds":`); got != (tt.left != nil) {
				t.Errorf("JSON %s", &line)
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-"))
	if *update {
		must.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must.NoError(t, err)
	must.Equal(t, name, string(want), string(got))
}

// TestJSONHasTheKeysThatProgramsRead pins the keys of the JSON: other programs read them.
func TestJSONHasTheKeysThatProgramsRead(t *testing.T) {
	rec := record(func(r *jobstate.Record) {
		r.Diag = map[string]string{"n1": "x"}
		r.Hosts["n1"].ProcessesAttached = 1
	})
	var b bytes.Buffer
	must.NoError(t, fromRecord(rec, ended).WriteJSON(&b))
	if n := bytes.Count(b.Bytes(), []byte("\n")); n != 1 || b.Bytes()[b.Len()-1] != '\n' {
		t.Errorf("%d newlines", n)
	}
	var top map[string]any
	must.NoError(t, json.Unmarshal(b.Bytes(), &top))
	keys := func(v any) string {
		var names []string
		for k := range v.(map[string]any) {
			names = append(names, k)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	host := top["hosts"].(map[string]any)["n1"].(map[string]any)
	for _, tt := range []struct {
		what string
		v    any
		want string
	}{
		{"report", top, "advice diag_messages end exit_status hosts job name notes outcome owner pbs_job " +
			"resources_used start"},
		{"pbs_job", top["pbs_job"], "id in_ms_mom name owner queue resource_list"},
		{"resources_used", top["resources_used"], "cpupercent cput mem ncpus vmem walltime"},
		{"host", host, "cgroup_peak_bytes cpus cput_seconds kill mem_bytes mem_limit_bytes mem_source mems ncpus " +
			"oom_kills pids_peak processes_attached system_seconds user_seconds vmem_bytes"},
		{"kill", host["kill"], "seconds signal stragglers"},
	} {
		if got := keys(tt.v); got != tt.want {
			t.Errorf("keys of %s: %s, want %s", tt.what, got, tt.want)
		}
	}
}

func TestWalltimeRunsFromLaunchToTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*jobstate.Record)
		end    time.Time
		want   string
	}{
		{"launch to end of program", nil, ended.Add(time.Minute), "00:10:03"},
		{"as told", func(r *jobstate.Record) { r.ResourcesUsed = hostapi.Resources{"walltime": "42"} }, ended,
			"00:00:42"},
		{"not told well", func(r *jobstate.Record) { r.ResourcesUsed = hostapi.Resources{"walltime": "soon"} }, ended,
			"00:10:03"},
		{"suspended", func(r *jobstate.Record) { r.Suspended = 3 * time.Minute }, ended, "00:07:03"},
		{"ended suspended", func(r *jobstate.Record) {
			r.Suspended, r.SuspendedAt = 3*time.Minute, moment(ended.Add(-time.Minute))
		}, ended, "00:06:03"},
		{"killed before its program ended", func(r *jobstate.Record) { r.Ended = jobstate.Moment{} },
			ended.Add(time.Second), "00:10:04"},
		{"never launched", func(r *jobstate.Record) { r.Launched = jobstate.Moment{} }, ended, ""},
		{"clock set back", func(r *jobstate.Record) { r.Ended = moment(begun.Add(-time.Hour)) }, ended, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fromRecord(record(tt.change), tt.end).ResourcesUsed["walltime"]; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAdviceIsGivenBeyondItsThresholds(t *testing.T) {
	const m, g = int64(1 << 20), int64(1 << 30)
	for _, tt := range []struct {
		name       string
		ncpus      int
		cput, wall time.Duration
		mem, limit int64
		ooms       int64
		running    bool
		want       []string
	}{
		{"well used", 4, 4 * time.Minute, time.Minute, 900 * m, g, 0, false, nil},
		{"too short to tell", 4, 0, 9 * time.Second, m, 64 * g, 0, false, nil},
		{"idle", 1, 0, time.Minute, 0, 0, 0, false,
			[]string{"idle: 0.0 s of cpu time in 00:01:00"}},
		{"two of eight, or all at times", 8, 2 * time.Minute, time.Minute, 0, 0, 0, true, nil},
		{"serial", 2, 63 * time.Second, time.Minute, 0, 0, 0, false,
			[]string{"try ncpus=1: one of 2 cpus was used, as by a program that is not parallel"}},
		{"memory", 1, time.Minute, time.Minute, 400 * m, 2 * g, 0, false,
			[]string{"try mem=480mb: the peak was 400mb of 2gb"}},
		{"memory that was not asked for", 1, time.Minute, time.Minute, 400 * m, 2 * g, 0, false, nil},
		{"hardly any memory", 1, time.Minute, time.Minute, m, 2 * g, 0, false,
			[]string{"try mem=64mb: the peak was 1mb of 2gb"}},
		{"memory may still grow", 1, time.Minute, time.Minute, 400 * m, 2 * g, 0, true, nil},
		{"little to gain", 1, time.Minute, time.Minute, 10 * m, 500 * m, 0, false, nil},
		{"out of memory", 1, time.Minute, time.Second, m, 2 * g, 1, false,
			[]string{"try mem=3gb or more: mem=2gb was too little"}},
		{"out of the node's memory", 1, time.Minute, time.Minute, m, 0, 1, false,
			[]string{"memory ran out, and nothing limited the job's: request mem"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &jobstate.Record{Job: &hostapi.Job{ID: "1"}, Launched: moment(begun),
				Ended: moment(begun.Add(tt.wall)), Hosts: map[string]*hostapi.HostUsage{
					"h": {NCPUs: tt.ncpus, CPUTSeconds: ptr(tt.cput.Seconds()), MemBytes: &tt.mem, OOMKills: &tt.ooms},
				}}
			if tt.limit > 0 {
				rec.Hosts["h"].MemLimitBytes = &tt.limit
				rec.Job.ExecVnode = "(h:ncpus=1:mem=1kb)"
			}
			if tt.name == "memory that was not asked for" {
				rec.Job.ExecVnode = "(h:ncpus=1)"
			}
			end := rec.Ended.Wall
			if tt.running {
				end = time.Time{}
			}
			must.Equal(t, "", append([]string{}, tt.want...), fromRecord(rec, end).Notes)
		})
	}
}

func TestJSONHoldsTheReportAndTheJob(t *testing.T) {
	for _, tt := range goldens {
		rec := *tt.rec
		job := *rec.Job
		job.State = json.RawMessage(`{"secret":1}`)
		rec.Job = &job
		r := fromRecord(&rec, tt.end)
		b, err := json.Marshal(r)
		must.NoError(t, err)
		if bytes.Contains(b, []byte("secret")) {
			t.Errorf("%s has the state of hooks: %s", tt.name, b)
		}
		got, err := FromArchive(b)
		must.NoError(t, err)
		if strings.ToValidUTF8(r.Name, "") == r.Name {
			must.Equal(t, tt.name, r, got)
		}
	}
	for name, text := range map[string]string{"no json": "x", "wrong type": `{"job":1}`,
		"no number": `{"resources_used":{"mem":[]}}`} {
		if r, err := FromArchive(json.RawMessage(text)); err == nil || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	r, err := FromArchive(json.RawMessage(`{"job":"1"}`))
	if err != nil || r.Hosts == nil || r.Notes == nil || r.DiagMessages == nil || r.PBSJob != nil {
		t.Errorf("little: %+v, %v", r, err)
	}
}

func TestFormatsAreKnownByName(t *testing.T) {
	if _, err := FormatNamed("yaml"); err == nil || !strings.Contains(err.Error(), strings.Join(FormatNames(), ", ")) {
		t.Errorf("unknown format: %v", err)
	}
	r := fromRecord(record(nil), ended)
	for name, between := range map[string]string{"json": "", "pbs": "", "text": "\n"} {
		format, err := FormatNamed(name)
		must.NoError(t, err)
		var single, both bytes.Buffer
		must.NoError(t, errors.Join(format(&single, slices.Values([]*Report{r})),
			format(&both, slices.Values([]*Report{r, r}))))
		if want := single.String() + between + single.String(); both.String() != want {
			t.Errorf("%s: %q", name, both.String())
		}
		if err := format(failingWriter{}, slices.Values([]*Report{r})); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: writer's error is lost: %v", name, err)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"train", "\x1b[31m", "a\x00\xff\u202e\u009b\u2028\n", "日本 ü", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q became %q", s, got)
		}
		if printable(got) != got {
			t.Errorf("%q is not stable", got)
		}
	})
}

// FuzzFromArchive: whatever a file holds can be written as text, and only printable text.
func FuzzFromArchive(f *testing.F) {
	for _, tt := range goldens {
		b, err := json.Marshal(fromRecord(tt.rec, tt.end))
		must.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := FromArchive(b)
		if err != nil {
			return
		}
		var text bytes.Buffer
		must.NoError(t, r.WriteText(&text))
		if strings.ContainsFunc(text.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("not printable: %q", text.String())
		}
		var again bytes.Buffer
		must.NoError(t, r.WriteJSON(&again))
	})
}

// A percentage of a job that owns its hosts, or that mostly starts, would mislead its owner.
func TestJobsThatAreNotRated(t *testing.T) {
	for _, tt := range []struct {
		name, place string
		ran         time.Duration
		cpu, mem    bool
	}{
		{"shares its host", "pack", time.Hour, true, true},
		{"exclusive", "scatter:excl", time.Hour, false, false},
		{"exclusive host", "exclhost", time.Hour, false, false},
		{"a word that only begins so", "scatter:exclude", time.Hour, true, true},
		{"a minute", "free", time.Minute, true, true},
		{"less than a minute", "free", time.Minute - time.Second, false, true},
	} {
		r := fromRecord(record(func(r *jobstate.Record) {
			r.Job.ResourceList["place"], r.Ended = tt.place, moment(begun.Add(tt.ran))
			r.Hosts["n1"].CPUTSeconds = ptr(tt.ran.Seconds())
		}), begun.Add(tt.ran))
		_, cpu := r.totals().cpuEfficiency()
		_, mem := r.totals().memEfficiency()
		must.Equal(t, tt.name, []bool{tt.cpu, tt.mem}, []bool{cpu, mem})
		must.Equal(t, tt.name+": the bars", []bool{tt.cpu, tt.mem}, []bool{
			r.totals().hostCPU(r.Hosts["n1"]).part != nil, r.totals().hostMemory(r.Hosts["n1"]).part != nil})
	}
}
