package stray

import (
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Class is the classification of a process outside every job.
type Class int

// The classes, in the order in which they are checked.
const (
	Ours    Class = iota + 1 // ignored: root's, too young, already in a job, part of sshd or of hookhost
	Service                  // of cron, at, a user's systemd or another service
	Certain                  // Verdict.Job's
	Login                    // somebody's login, or started by one
	Unknown                  // of unknown origin
)

// String returns the class in lower case.
func (c Class) String() string {
	names := []string{"ours", "service", "certain", "login", "unknown"}
	if c < Ours || int(c) > len(names) {
		return "no class"
	}
	return names[c-Ours]
}

// The marks by which a process belongs to a job (Verdict.Match, hostapi.Stray.Match).
const (
	ByAncestry    = "ancestry"    // an ancestor is in the job
	BySession     = "session"     // its session is the job's
	ByEnvironment = "environment" // PBS_JOBID
	ByContainer   = "container"   // a container of a user without a login, whose only job it is
)

// Job holds the data about a live job of this host that Match needs.
type Job struct {
	ID      string
	UID     int // the owner
	Session int // of its program here; 0 if none was launched
}

// Verdict is the result of Match. Job and Match are set only for Certain.
type Verdict struct {
	Class Class
	Job   string
	Match string
}

// Young is the age below which a process is left alone: its parent may be about to attach it.
const Young = 2 * time.Second

// Match classifies a process, given all live jobs of this host. The first rule that applies
// decides; docs/mpi.md describes the rules.
//
// Users can set PBS_JOBID for their own processes. At worst these are charged to one of their own
// jobs and end with it.
func Match(f Facts, jobs []Job) Verdict {
	mine := slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.UID != f.UID })
	switch {
	case f.UID == 0, f.PID <= 1, f.Kernel, f.Dead(), f.Age < Young, f.In != "", isOurs(f), len(mine) == 0:
		return Verdict{Class: Ours}
	case isService(f):
		return Verdict{Class: Service}
	}
	if job, by, ok := related(f, mine); ok {
		if job == "" {
			return Verdict{Class: Ours}
		}
		return Verdict{Class: Certain, Job: job, Match: by}
	}
	if descends(f, isMoM) { // such as copying the job's files, which must not be charged to the job
		return Verdict{Class: Service}
	}
	login := descends(f, isLogin)
	if f.JobID != "" && (f.TTY == 0 || !login) && has(mine, f.JobID) {
		return Verdict{Class: Certain, Job: f.JobID, Match: ByEnvironment}
	}
	if ContainerSetting(f.Cgroup) != "" {
		switch {
		case login || !f.NoLogin:
			return Verdict{Class: Service}
		case len(mine) == 1:
			return Verdict{Class: Certain, Job: mine[0].ID, Match: ByContainer}
		}
		return Verdict{Class: Unknown}
	}
	switch {
	case login || sessionOf(f.Cgroup) != "":
		return Verdict{Class: Login}
	case isSubmitter(f):
		return Verdict{Class: Service}
	}
	return Verdict{Class: Unknown}
}

func has(jobs []Job, id string) bool {
	return slices.ContainsFunc(jobs, func(j Job) bool { return j.ID == id })
}

// related returns the job that contains an ancestor or the leader of the session, or "" if it is
// none of the jobs.
func related(f Facts, mine []Job) (job, by string, ok bool) {
	for _, r := range f.Chain {
		if r.UID == f.UID && r.In != "" {
			return known(mine, r.In), ByAncestry, true
		}
	}
	switch {
	case f.Leader != nil && f.Leader.UID == f.UID && f.Leader.In != "":
		return known(mine, f.Leader.In), BySession, true
	case f.Leader != nil || f.Session <= 0:
		return "", "", false
	}
	// The session has lost its leader, or the process itself leads it. A login whose session reuses
	// the number of an old one does not belong to a job.
	i := slices.IndexFunc(mine, func(j Job) bool { return j.Session == f.Session })
	if i < 0 || descends(f, isLogin) || sessionOf(f.Cgroup) != "" {
		return "", "", false
	}
	return mine[i].ID, BySession, true
}

func known(jobs []Job, id string) string {
	if has(jobs, id) {
		return id
	}
	return ""
}

// isOurs reports whether the process only starts others. That is true of hookhost, a program that
// hookhost starts as the user, and the sshd of a connection. root's sshd forks the last one, which
// executes the same file.
func isOurs(f Facts) bool {
	if f.Ours {
		return true
	}
	if len(f.Chain) == 0 || f.Chain[0].UID != 0 {
		return false
	}
	parent := f.Chain[0]
	return parent.Ours || isSSHD(parent.Program) && f.Exe != (kernfs.FileID{}) && f.Exe == parent.Exe
}

// descends reports whether of accepts an ancestor.
func descends(f Facts, of func(Relative) bool) bool { return slices.ContainsFunc(f.Chain, of) }

func isSSHD(program string) bool {
	return slices.Contains([]string{"sshd", "sshd-session", "sshd-auth", "dropbear"}, program)
}

// isSubmitter recognizes the process that qsub leaves behind, without parent or terminal. For a
// minute, that process passes its user's further jobs to the server (openpbs src/cmds/qsub_sup.c,
// do_daemon_stuff).
func isSubmitter(f Facts) bool { return f.Qsub && f.Session == f.PID && f.TTY == 0 }

func isMoM(r Relative) bool { return r.UID == 0 && r.Program == "pbs_mom" }

// isLogin recognizes the programs with which people log in, and root's programs that change the
// user. A program that users start themselves, such as su to their own name, does not show where
// they come from.
func isLogin(r Relative) bool {
	if r.UID != 0 {
		return false
	}
	switch r.Program {
	case "su", "sudo", "doas", "runuser", "login", "getty", "agetty", "mingetty", "in.rlogind", "in.rshd", "in.telnetd",
		"xdm", "kdm", "sddm", "sddm-helper", "lightdm", "xrdp-sesman":
		return true
	}
	return isSSHD(r.Program) || strings.HasPrefix(r.Program, "gdm")
}

// isScheduler recognizes programs that start others at scheduled times. Their children belong to
// nothing else. A user's systemd is recognized by its cgroup.
func isScheduler(r Relative) bool {
	switch r.Program {
	case "cron", "crond", "fcron", "anacron", "atd":
		return r.UID == 0
	}
	return false
}

// ContainerSetting returns the setting that keeps the containers of a runtime in their job, given
// the text of a /proc/PID/cgroup. It returns "" unless a runtime had systemd put the process into a
// scope below the user's manager: user@UID.service/user.slice/libpod-ID.scope.
func ContainerSetting(cgroup string) string {
	for dir := range cgroups(cgroup) {
		_, below, _ := strings.Cut(dir, "/user@")
		_, below, _ = strings.Cut(below, ".service/user.slice/")
		scope, _, _ := strings.Cut(below, "/")
		if !strings.HasSuffix(scope, ".scope") {
			continue
		}
		runtime, _, _ := strings.Cut(scope, "-")
		switch runtime {
		case "libpod", "podman", "buildah":
			return `cgroup_manager = "cgroupfs" in containers.conf`
		case "apptainer", "singularity":
			return runtime + "'s setting systemd cgroups = no"
		}
	}
	return ""
}

// notServices are the units of system.slice that contain logins or programs that start jobs.
var notServices = []string{"ssh", "sshd", "dropbear", "pbs", "pbs_mom", "hookhost"}

// isService reports whether the process is part of a service: by its cgroup, where systemd sorts
// processes into units, and by its ancestors.
func isService(f Facts) bool {
	if descends(f, isScheduler) {
		return true
	}
	if ContainerSetting(f.Cgroup) != "" { // a job's program may have started it
		return false
	}
	for dir := range cgroups(f.Cgroup) {
		inSystem := false
		for part := range strings.SplitSeq(dir, "/") {
			unit, isUnit := strings.CutSuffix(part, ".service")
			name, _, _ := strings.Cut(unit, "@") // a unit made from a template
			switch {
			case part == "system.slice":
				inSystem = true
			case !isUnit:
			case slices.Contains([]string{"cron", "crond", "atd", "anacron"}, unit), name == "user" && name != unit:
				return true
			case inSystem && !slices.Contains(notServices, name):
				return true
			}
		}
	}
	return false
}

// sessionOf returns the login session in which systemd-logind lists the process, or "".
func sessionOf(text string) string {
	for dir := range cgroups(text) {
		for part := range strings.SplitSeq(dir, "/") {
			if id, ok := strings.CutPrefix(part, "session-"); ok {
				if id, ok := strings.CutSuffix(id, ".scope"); ok {
					return id
				}
			}
		}
	}
	return ""
}

// cgroups yields the directories of a /proc/PID/cgroup (cgroups(7)).
func cgroups(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
			if len(parts) == 3 && !yield(parts[2]) {
				return
			}
		}
	}
}
