package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// readCSV returns the rows of reports by column.
func readCSV(t *testing.T, reports ...*Report) []map[string]string {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, List{}.CSV()(&b, slices.Values(reports)))
	lines, err := csv.NewReader(&b).ReadAll()
	must.NoError(t, err)
	var rows []map[string]string
	for _, cells := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestCSVHasARowForEachJobAndNothingForWhatIsNotKnown(t *testing.T) {
	full := fromRecord(record(func(r *jobstate.Record) {
		h := r.Hosts["n1"]
		h.ThrottledSeconds = ptr(1.25)
		h.Devices = []hostapi.DeviceUsage{{ID: "GPU-1", UtilizationPercent: ptr(60.0)},
			{ID: "GPU-2", UtilizationPercent: ptr(3.5)}, {ID: "fpga"}}
	}), ended)
	rows := readCSV(t, full, &Report{Job: "7"})
	must.Equal(t, "", map[string]string{"job": "12.srv", "name": "train", "owner": "alice", "queue": "workq",
		"project": "", "account": "", "start": "2026-03-01T12:00:00+01:00", "end": "2026-03-01T12:10:03+01:00",
		"exit_status": "0", "walltime_seconds": "603", "walltime_requested_seconds": "3600", "hosts": "n1",
		"missing_hosts": "", "ncpus": "2", "cput_seconds": "1086", "cpu_efficiency": "0.900",
		"mem_bytes": "50331648", "mem_limit_bytes": "67108864", "mem_efficiency": "0.750", "oom_kills": "0",
		"throttled_seconds": "1.25", "cput_imbalance": "", "gpus": "2", "gpu_utilization_percent": "31.75",
		"notes": "try walltime=00:15:00: the job used 17% of 01:00:00; " +
			"with a shorter walltime it may start sooner",
		"energy_joules": "", "billing": "", "state": "ok", "outcome": "completed", "walltime_efficiency": "0.168",
	}, rows[0])
	for column, cell := range rows[1] {
		if cell != "" && column != "job" {
			t.Errorf("%s of an empty report: %q", column, cell)
		}
	}
	if err := (List{}).CSV()(failingWriter{}, slices.Values([]*Report{full})); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writer's error is lost: %v", err)
	}
}

// A spreadsheet runs a cell that begins like a formula.
func TestCSVHasNoCellOfAUsersThatIsAFormula(t *testing.T) {
	for _, name := range []string{`=cmd|' /C calc'!A0`, "+1", "-1", "@SUM(1)", "  =1+1", "\t=1", "\r=1", "\n=1"} {
		r := fromRecord(record(func(r *jobstate.Record) {
			r.Job.Name, r.Job.Queue, r.Job.Project, r.Job.Account, r.Job.Owner.User = name, name, name, name, name
			r.Notes = []string{name}
			r.Hosts = map[string]*hostapi.HostUsage{name: {}}
			r.Missing = map[string]string{name: "x"}
			r.ExitStatus = ptr(-29)
		}), ended)
		for column, cell := range readCSV(t, r)[0] {
			if cell == "" || column == "exit_status" {
				continue
			}
			if strings.ContainsRune("=+-@\t\r\n", rune(strings.TrimLeft(cell, " ")[0])) {
				t.Errorf("%s: %q", column, cell)
			}
		}
	}
}
