package pam

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

const alice = 1000

// job is a job of alice's, or another user's, that began in that order.
func job(id string, phase hostapi.Phase, begun int, edit ...func(*hostapi.Job)) api.Job {
	j := &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "alice", UID: alice}}
	for _, e := range edit {
		e(j)
	}
	return api.Job{Job: j, Phase: phase, Begun: time.Unix(int64(begun), 0)}
}

func of(uid int) func(*hostapi.Job) { return func(j *hostapi.Job) { j.Owner.UID = uid } }

func on(vnodes string) func(*hostapi.Job) { return func(j *hostapi.Job) { j.ExecVnode = vnodes } }

func TestTheUsersJobsDecideAboutALogin(t *testing.T) {
	const run, wait, suspended, exiting = hostapi.PhaseRunning, hostapi.PhasePrerun, hostapi.PhaseSuspended,
		hostapi.PhaseExiting
	jobs := func(list ...api.Job) []api.Job { return append(list, job("9.s", run, 9, of(2000)), api.Job{}) }
	none, one := jobs(), jobs(job("1.s", run, 1))
	two := jobs(job("2.s", run, 2, on("(n1:ncpus=1)+(n2:ncpus=1)")),
		job("1.s", wait, 1, on("(n2:ncpus=1)+(n3.c:ncpus=1)")))
	tests := []struct {
		name     string
		restrict bool
		adopt    string
		jobs     []api.Job
		login    api.Login
		job      string
		refused  string
	}{
		{"off", false, "off", none, api.Login{}, "", ""},
		{"off, a job", false, "off", one, api.Login{}, "", ""},
		{"restrict, no job", true, "off", none, api.Login{}, "", "alice has no job on n2"},
		{"restrict, a job", true, "off", one, api.Login{}, "", ""},
		{"restrict, several jobs", true, "off", two, api.Login{}, "", ""},
		{"restrict, a suspended job", true, "off", jobs(job("1.s", suspended, 1)), api.Login{}, "", ""},
		{"restrict, an ending job", true, "off", jobs(job("1.s", exiting, 1)), api.Login{}, "", "ending: 1.s"},
		{"adopt, no job", false, "newest", none, api.Login{}, "", ""},
		{"adopt, a job", false, "deny", one, api.Login{}, "1.s", ""},
		{"adopt, a suspended job", false, "newest", jobs(job("1.s", suspended, 1)), api.Login{}, "", ""},
		{"adopt, an ending job", false, "newest", jobs(job("1.s", exiting, 1)), api.Login{}, "", ""},
		{"newest", false, "newest", two, api.Login{}, "2.s", ""},
		{"several", false, "deny", two, api.Login{}, "", "several jobs on n2, and a login cannot choose one: 2.s, 1.s"},
		{"named", false, "deny", two, api.Login{Job: "1.s"}, "1.s", ""},
		{"named, another's", false, "newest", two, api.Login{Job: "9.s"}, "2.s", ""},
		{"from a host of one", false, "deny", two, api.Login{From: "n3"}, "1.s", ""},
		{"from a host of one, by its other name", false, "newest", two, api.Login{From: "n1.cluster"}, "2.s", ""},
		{"from a host of both", false, "deny", two, api.Login{From: "n2"}, "", "several jobs"},
		{"one runs, one is suspended", true, "deny", jobs(job("1.s", run, 1), job("2.s", suspended, 2)), api.Login{},
			"1.s", ""},
		{"both, no job", true, "newest", none, api.Login{}, "", "has no job on n2"},
		{"both, all suspended", true, "newest", jobs(job("1.s", suspended, 1)), api.Login{}, "", "are suspended: 1.s"},
		{"root", true, "newest", none, api.Login{User: "toor", UID: 0}, "", ""},
		{"an allowed user", true, "newest", one, api.Login{User: "operator", UID: alice}, "", ""},
		{"an allowed group", true, "newest", one, api.Login{Groups: []string{"users", "domain admins"}}, "", ""},
		{"a group named like a user", true, "newest", none, api.Login{Groups: []string{"operator"}}, "", "has no job"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config.PAM{Restrict: tt.restrict, Adopt: tt.adopt, Allow: []string{"operator", "@domain admins"}}
			login := tt.login
			if login.User == "" {
				login.User, login.UID = "alice", alice
			}
			got, err := Decide(cfg, login, tt.jobs, func() []string { return []string{login.From} }, "n2")
			switch {
			case tt.refused == "" && (err != nil || got != tt.job):
				t.Errorf("job %q, %v, want %q", got, err, tt.job)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("job %q, %v, want %q", got, err, tt.refused)
			}
		})
	}
}

// A user whose groups are not known might be in one of allow. Without such a group nothing changes.
func TestUnknownGroupsDecideAboutRefusalsOnly(t *testing.T) {
	const cause = "groups of user alice: id: still running after 10s"
	one := []api.Job{job("1.s", hostapi.PhaseRunning, 1)}
	for _, tt := range []struct {
		name, unavailable, allow string
		jobs                     []api.Job
		job, refused             string
	}{
		{"deny", "deny", "@admins", nil, "", "alice has no job on n2. Log in where a job of yours runs: " +
			"qstat -n1 -u alice. No @group in allow counts: " + cause},
		{"allow", "allow", "@admins", nil, "", ""},
		{"allow, but no group is let in", "allow", "operator", nil, "", "qstat -n1 -u alice."},
		{"a job", "deny", "@admins", one, "1.s", ""},
		{"allow, a job", "allow", "@admins", one, "1.s", ""},
		{"in allow by name", "deny", "alice", nil, "", ""},
	} {
		cfg := config.PAM{Restrict: true, Adopt: "newest", Allow: []string{tt.allow}, Unavailable: tt.unavailable}
		login := api.Login{User: "alice", UID: alice, NoGroups: cause}
		got, err := Decide(cfg, login, tt.jobs, func() []string { return nil }, "n2")
		if got != tt.job || (err != nil) != (tt.refused != "") ||
			err != nil && !strings.HasSuffix(err.Error(), tt.refused) {
			t.Errorf("%s: job %q, %v", tt.name, got, err)
		}
	}
}

// A refusal is one line of a readable length, however many jobs there are.
func TestRefusalNamesFewJobs(t *testing.T) {
	var jobs []api.Job
	for range 1000 {
		jobs = append(jobs, job("1.s", hostapi.PhaseRunning, 1))
	}
	cfg := config.PAM{Adopt: "deny"}
	_, err := Decide(cfg, api.Login{User: "a\nb", UID: alice}, jobs, func() []string { return nil }, "n2")
	if err == nil || !strings.Contains(err.Error(), "1.s and 995 more") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

func TestASettingDecidesWithoutADaemon(t *testing.T) {
	for setting, in := range map[string]bool{"deny": false, "allow": true} {
		if err := Unavailable(config.PAM{Restrict: true, Unavailable: setting}, api.ErrNoHost); (err == nil) != in {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
