package report

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// FromPBS returns the report of a job as PBS's server knows it. What was used on each host is in
// the resource host_usage. The totals are the server's. A report of the server has no series, no
// ranks and no notes of hooks, and GPUs have no names.
func FromPBS(s *pbs.JobStatus) *Report {
	job := &hostapi.Job{
		ID: s.ID, Name: s.Name, Owner: hostapi.Owner{User: s.User, UID: -1, GID: -1}, Queue: s.Queue,
		Project: s.Project, Account: s.Account, ExecVnode: s.ExecVnode, ExecHost2: s.ExecHost,
		ResourceList: s.ResourceList, SessionID: s.SessionID, RunCount: s.RunCount, RunVersion: s.RunVersion,
		ExitStatus: s.ExitStatus, MotherSuperior: true,
	}
	r := &Report{
		Job: s.ID, Name: s.Name, Owner: owner(job.Owner), Start: known(s.Start), End: known(s.End),
		ExitStatus: s.ExitStatus, PBSJob: job, ResourcesUsed: Used{}, DiagMessages: diagnoses(s.ResourcesUsed),
		Terminated: s.Terminated, NotStarted: s.Ended() && s.Start.IsZero() && s.ExitStatus != nil,
	}
	maps.Copy(r.ResourcesUsed, s.ResourcesUsed)
	for _, name := range byHost {
		delete(r.ResourcesUsed, name)
	}
	if n := s.ResourceList["ncpus"]; r.ResourcesUsed["ncpus"] == "" && n != "" {
		r.ResourcesUsed["ncpus"] = n
	}
	if note := r.addHosts(s); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if s.Start.IsZero() && s.Comment != "" {
		r.Notes = append(r.Notes, s.Comment)
	}
	r.complete()
	r.conclude()
	return r
}

// addHosts adds the usage of each host, and returns a note if PBS does not have it.
func (r *Report) addHosts(s *pbs.JobStatus) (note string) {
	text, reported := s.ResourcesUsed["host_usage"]
	if !reported {
		if r.End == nil || s.ResourcesUsed["mem"] == "" {
			return ""
		}
		return "PBS has no figures of each host: hookhost openpbs install, on the PBS server's host, creates " +
			"the resource host_usage"
	}
	hosts, err := usage.ParseHostUsage(text)
	if err != nil {
		return "figures of hosts are left out: " + err.Error()
	}
	r.Hosts = hosts
	chunks, err := pbs.JobChunks(s.ExecVnode, s.ExecHost)
	for name, h := range hosts {
		if share, shareErr := pbs.OnHost(chunks, name); err == nil && shareErr == nil {
			h.NCPUs = share.NCPUs
		}
	}
	all, _ := pbs.Hosts(s.ExecVnode, s.ExecHost)
	r.Missing = map[string]string{}
	for _, name := range all {
		if r.Hosts[r.nameOf(name)] == nil {
			r.Missing[name] = "PBS has no figures of it"
			if r.End == nil {
				r.Missing[name] += " yet"
			}
		}
	}
	return ""
}

// diagnoses returns diag_messages by host. pbs_cgroups has texts in the same form.
func diagnoses(used map[string]string) map[string]string {
	var values map[string]json.RawMessage
	text := strings.Trim(used["diag_messages"], "'")
	if json.Unmarshal([]byte(text), &values) != nil {
		return nil
	}
	diag := make(map[string]string, len(values))
	for host, raw := range values {
		var message string
		if json.Unmarshal(raw, &message) == nil {
			diag[host] = message
		}
	}
	return diag
}
