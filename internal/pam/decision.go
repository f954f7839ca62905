// Package pam decides who may log in to this host, and which job the session is part of. It also
// passes a job's environment on to pam_env(8).
package pam

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Exempt reports whether the user is let in and left alone, whatever jobs there are. The name alone
// may suffice for that: see Identify.
func Exempt(cfg config.PAM, login api.Login) bool {
	if cfg.Off() || login.User == "root" || login.UID == 0 || slices.Contains(cfg.Allow, login.User) {
		return true
	}
	return slices.ContainsFunc(login.Groups, func(group string) bool { return slices.Contains(cfg.Allow, "@"+group) })
}

// Decide returns the job that the session of a login will be part of, "" for none. jobs are those
// of this host. client returns the names of the host that the login comes from. It is only called
// if the user has several jobs. A refusal is an api.Error whose text is for the user. host is the
// name of this host in it.
//
// If the user has several jobs, the first of these rules that names one of them decides:
//
//   - the job that the login itself names,
//   - the only one that also runs on the host that the login comes from, as if started by that job,
//   - the one that began last, or a refusal.
//
// If the user would be refused and might be in a group of allow, since the groups are not known,
// cfg.Unavailable decides.
func Decide(cfg config.PAM, login api.Login, jobs []api.Job, client func() []string, host string) (string, error) {
	id, err := decide(cfg, login, jobs, client, host)
	if err == nil || login.NoGroups == "" || !slices.ContainsFunc(cfg.Allow, isGroup) {
		return id, err
	}
	if cfg.Unavailable == config.PAMAllow {
		return "", nil
	}
	return "", api.RefusedLogin("%v No @group in allow counts: %s", err, login.NoGroups)
}

func isGroup(name string) bool { return strings.HasPrefix(name, "@") }

func decide(cfg config.PAM, login api.Login, jobs []api.Job, client func() []string, host string) (string, error) {
	if Exempt(cfg, login) {
		return "", nil
	}
	own := slices.DeleteFunc(slices.Clone(jobs), func(j api.Job) bool {
		return j.Job == nil || j.Job.Owner.UID != login.UID
	})
	run, rest := split(own)
	switch {
	case cfg.Adopt == config.AdoptOff && len(own) > len(rest[hostapi.PhaseExiting]):
		return "", nil
	case len(run) == 0 && !cfg.Restrict:
		return "", nil
	case len(run) == 0:
		return "", refusal(login, rest, host)
	case len(run) == 1:
		return run[0].Job.ID, nil
	}
	if named := slices.IndexFunc(run, func(j api.Job) bool { return j.Job.ID == login.Job }); named >= 0 {
		return login.Job, nil
	}
	if id, only := onHost(run, client()); only {
		return id, nil
	}
	if cfg.Adopt == config.AdoptNewest {
		return slices.MaxFunc(run, func(a, b api.Job) int { return a.Begun.Compare(b.Begun) }).Job.ID, nil
	}
	return "", api.RefusedLogin("No login: %s has several jobs on %s, and a login cannot choose one: %s. "+
		"In a job, pbs_tmrsh %s runs a command here.", login.User, host, idsOf(run), host)
}

// split returns the jobs that a process can join, and the rest by phase.
func split(jobs []api.Job) (run []api.Job, rest map[hostapi.Phase][]api.Job) {
	rest = map[hostapi.Phase][]api.Job{}
	for _, j := range jobs {
		if j.Phase == hostapi.PhasePrerun || j.Phase == hostapi.PhaseRunning {
			run = append(run, j)
		} else {
			rest[j.Phase] = append(rest[j.Phase], j)
		}
	}
	return run, rest
}

// onHost returns the job that has a host with one of these names, if it is the only one.
func onHost(jobs []api.Job, names []string) (id string, only bool) {
	for _, j := range jobs {
		hosts, err := pbs.Hosts(j.Job.ExecVnode, j.Job.ExecHost2)
		if err != nil {
			continue // the job of a person who wrote the event by hand
		}
		on := slices.ContainsFunc(hosts, func(host string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return pbs.SameHost(name, host) })
		})
		if on && id != "" {
			return "", false
		}
		if on {
			id = j.Job.ID
		}
	}
	return id, id != ""
}

// refusal is the refusal of a user who has no job that a process can join.
func refusal(login api.Login, rest map[hostapi.Phase][]api.Job, host string) error {
	if jobs := rest[hostapi.PhaseSuspended]; len(jobs) > 0 {
		return api.RefusedLogin("No login: on %s, %s has only jobs that are suspended: %s. Log in when one runs again.",
			host, login.User, idsOf(jobs))
	}
	if jobs := rest[hostapi.PhaseExiting]; len(jobs) > 0 {
		return api.RefusedLogin("No login: %s has only jobs on %s that are ending: %s.", login.User, host, idsOf(jobs))
	}
	return api.RefusedLogin("No login: %s has no job on %s. Log in where a job of yours runs: qstat -n1 -u %[1]s.",
		login.User, host)
}

// mostIDs bounds how many jobs a message names.
const mostIDs = 5

func idsOf(jobs []api.Job) string {
	var ids []string
	for _, j := range jobs[:min(len(jobs), mostIDs)] {
		ids = append(ids, j.Job.ID)
	}
	text := strings.Join(ids, ", ")
	if more := len(jobs) - len(ids); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Unavailable decides about a login of a user who is not exempt if the daemon does not answer.
func Unavailable(cfg config.PAM, cause error) error {
	if cfg.Unavailable == config.PAMAllow {
		return nil
	}
	return api.RefusedLogin("No login: hookhost does not answer, please tell your administrators: %v", cause)
}
