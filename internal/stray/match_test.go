package stray

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// Users, and the jobs of this host: two of user's, one of other's.
const user, other = 1000, 1001

var jobs = []Job{{ID: "77.srv", UID: user, Session: 500}, {ID: "78.srv", UID: user},
	{ID: "79.srv", UID: other, Session: 900}}

// Files that processes execute.
var sshdFile, dropbearFile = kernfs.FileID{Device: 1, Inode: 2}, kernfs.FileID{Device: 1, Inode: 3}

// Ancestors, the parent first.
var (
	first   = Relative{PID: 1, Program: "systemd"}
	noInit  = Relative{PID: 1, Program: "bash"} // of a container, or a laboratory's host
	daemon  = Relative{PID: 20, Program: "sshd", Exe: sshdFile}
	private = Relative{PID: 21, Program: "sshd", Exe: sshdFile}
	sshd    = []Relative{{PID: 22, UID: user}, private, daemon, first}
	shell   = Relative{PID: 23, UID: user}
	mom     = Relative{PID: 30, Program: "pbs_mom"}
	inJob   = Relative{PID: 31, UID: user, In: "77.srv"}
	inOther = Relative{PID: 32, UID: user, In: "78.srv"}
	inGone  = Relative{PID: 33, UID: user, In: "12.srv"}
	theirs  = Relative{PID: 34, UID: other} // what is in another user's job is not looked at
)

func under(parents ...any) []Relative {
	var chain []Relative
	for _, p := range parents {
		switch p := p.(type) {
		case Relative:
			chain = append(chain, p)
		case []Relative:
			chain = append(chain, p...)
		}
	}
	return chain
}

func TestMatchTrustsWhatNoUserCanForge(t *testing.T) {
	type facts struct {
		uid, pid, sid, tty int
		comm, job, cgroup  string
		ours, qsub         bool
		exe                kernfs.FileID
		in                 string
		chain              []Relative
		leader             *Relative
		age                time.Duration
		state              byte
		kernel, noLogin    bool
	}
	ours, service, login, unknown := Verdict{Class: Ours}, Verdict{Class: Service}, Verdict{Class: Login},
		Verdict{Class: Unknown}
	certain := func(job, by string) Verdict { return Verdict{Class: Certain, Job: job, Match: by} }
	const sessionScope = "0::/user.slice/user-1000.slice/session-3.scope\n"
	const scopes = "0::/user.slice/user-1000.slice/user@1000.service/user.slice/"
	tests := []struct {
		name  string
		facts facts
		want  Verdict
	}{
		// of no concern
		{"root's", facts{uid: -1, job: "77.srv"}, ours},
		{"the first process", facts{pid: 1, job: "77.srv"}, ours},
		{"a thread of the kernel", facts{kernel: true, job: "77.srv"}, ours},
		{"a zombie", facts{state: 'Z', job: "77.srv"}, ours},
		{"too young", facts{age: time.Second, job: "77.srv"}, ours},
		{"old enough", facts{age: Young, job: "77.srv"}, certain("77.srv", ByEnvironment)},
		{"in its job", facts{in: "77.srv", job: "77.srv"}, ours},
		{"in another job", facts{in: "78.srv", job: "77.srv"}, ours},
		{"of a user without a job", facts{uid: 2000, job: "77.srv"}, ours},
		{"hookhost", facts{ours: true, job: "77.srv", chain: under(shell, sshd)}, ours},
		{"what a user calls hookhost", facts{comm: "hookhost", chain: under(first)}, unknown},
		{"what a user calls hookhost-remsh, with an environment",
			facts{comm: "hookhost-remsh", job: "77.srv", chain: under(shell, sshd)}, certain("77.srv", ByEnvironment)},
		{"a program that hookhost starts as the user",
			facts{job: "77.srv", chain: under(Relative{PID: 70, Ours: true}, first)}, ours},
		{"what comes of hookhost's child", facts{chain: under(shell, Relative{PID: 70, Ours: true}, first)}, unknown},
		{"sshd as the user", facts{comm: "sshd", exe: sshdFile, chain: sshd[1:]}, ours},
		{"sshd of a newer version", facts{comm: "sshd-session", exe: sshdFile,
			chain: under(Relative{PID: 21, Program: "sshd-session", Exe: sshdFile}, daemon, first)}, ours},
		{"another program below root's sshd", facts{comm: "sshd", exe: dropbearFile, chain: sshd[1:]}, login},
		{"nothing is known of two programs", facts{chain: under(Relative{PID: 21, Program: "sshd"}, first)}, login},
		{"what a user calls sshd", facts{comm: "sshd", chain: under(first)}, unknown},
		{"a user's own sshd", facts{comm: "sshd", exe: sshdFile, chain: under(first)}, unknown},
		{"what comes of a user's own sshd", facts{chain: under(Relative{PID: 40, UID: user}, first)}, unknown},
		{"what a user calls sshd, with an environment", facts{comm: "sshd", job: "77.srv", chain: under(first)},
			certain("77.srv", ByEnvironment)},
		{"what calls itself systemd", facts{comm: "systemd", chain: under(first)}, unknown},
		{"what a parent calls its helper", facts{comm: "(sd-pam)", chain: under(Relative{PID: 40, UID: user}, first)},
			unknown},

		// services
		{"a user's systemd", facts{comm: "systemd", job: "77.srv", chain: under(first),
			cgroup: "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n"}, service},
		{"below what calls itself systemd", facts{chain: under(Relative{PID: 40, UID: user}, first)}, unknown},
		{"in a unit of a user's systemd", facts{job: "77.srv", chain: under(first),
			cgroup: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n"}, service},
		{"from cron", facts{job: "77.srv", chain: under(shell, Relative{PID: 50, Program: "cron"},
			Relative{PID: 51, Program: "cron"}, noInit)}, service},
		{"from crond", facts{chain: under(Relative{PID: 50, Program: "crond"}, first)}, service},
		{"from at", facts{job: "77.srv", chain: under(shell, Relative{PID: 50, Program: "atd"}, first)}, service},
		{"from anacron", facts{job: "77.srv", chain: under(shell, Relative{PID: 50, Program: "anacron"}, first)},
			service},
		{"what a user calls cron", facts{job: "77.srv", chain: under(Relative{PID: 50, UID: user}, first)},
			certain("77.srv", ByEnvironment)},
		{"in cron's unit, its parent gone",
			facts{job: "77.srv", chain: under(first), cgroup: "1:name=systemd:/system.slice/cron.service\n"}, service},
		{"in at's unit of another slice",
			facts{job: "77.srv", chain: under(first), cgroup: "0::/x.slice/atd.service\n"}, service},
		{"in another service", facts{job: "77.srv", chain: under(first),
			cgroup: "0::/system.slice/jupyterhub.service\n"}, service},
		{"in one that was made from a template",
			facts{job: "77.srv", cgroup: "0::/system.slice/system-run.slice/run@3.service\n"}, service},
		{"in sshd's unit", facts{job: "77.srv", chain: under(first), cgroup: "0::/system.slice/ssh.service\n"},
			certain("77.srv", ByEnvironment)},
		{"in that of a connection", facts{chain: under(first),
			cgroup: "0::/system.slice/system-sshd.slice/sshd@1-10.0.0.2:22-10.0.0.1:40000.service\n"}, unknown},
		{"in MoM's unit", facts{job: "77.srv", chain: under(first), cgroup: "0::/system.slice/pbs.service\n"},
			certain("77.srv", ByEnvironment)},
		{"a child of MoM's that copies files", facts{job: "77.srv", chain: under(mom, first)}, service},
		{"a service, though an ancestor is in the job",
			facts{chain: under(inJob, first), cgroup: "0::/user.slice/user-1000.slice/user@1000.service/x\n"}, service},

		// containers, which podman and apptainer have a user's systemd put into scopes
		{"podman itself", facts{chain: under(shell, inJob, first), cgroup: scopes + "podman-4711.scope\n"},
			certain("77.srv", ByAncestry)},
		{"a container with the job's environment", facts{job: "78.srv", chain: under(first),
			cgroup: scopes + "libpod-0123.scope/container\n"}, certain("78.srv", ByEnvironment)},
		{"a container of a user with one job", facts{uid: other, noLogin: true, chain: under(first),
			cgroup: "4:memory:/x\n1:name=systemd:/user.slice/user-1.slice/user@1.service/user.slice/libpod-0.scope\n"},
			certain("79.srv", ByContainer)},
		{"an instance of apptainer", facts{uid: other, noLogin: true, chain: under(first),
			cgroup: scopes + "apptainer-99.scope\n"}, certain("79.srv", ByContainer)},
		{"a container of a user with two jobs", facts{noLogin: true, chain: under(first),
			cgroup: scopes + "libpod-conmon-0.scope\n"}, unknown},
		{"a container of a login", facts{uid: other, chain: under(first), cgroup: scopes + "libpod-0.scope\n"},
			service},
		{"a container of a login, below sshd", facts{uid: other, noLogin: true,
			chain: under(Relative{PID: 22, UID: other}, private, daemon, first), cgroup: scopes + "libpod-0.scope\n"},
			service},
		{"a container from cron", facts{noLogin: true, cgroup: scopes + "libpod-0.scope\n",
			chain: under(inJob, Relative{PID: 50, Program: "cron"}, first)}, service},
		{"a container of a service of the user's", facts{uid: other, noLogin: true, chain: under(first),
			cgroup: "0::/user.slice/user-1001.slice/user@1001.service/app.slice/x.service/libpod-0.scope\n"}, service},
		{"another scope", facts{uid: other, noLogin: true, chain: under(first), cgroup: scopes + "run-1.scope\n"},
			service},

		{"what a login's qsub leaves behind", facts{qsub: true, pid: 600, sid: 600, chain: under(first)}, service},
		{"what a job's qsub leaves outside", facts{qsub: true, pid: 600, sid: 600, job: "77.srv", chain: under(first)},
			certain("77.srv", ByEnvironment)},
		{"a process called qsub", facts{comm: "qsub", pid: 600, sid: 600, chain: under(first)}, unknown},
		{"a qsub in somebody's session", facts{qsub: true, pid: 600, sid: 601, chain: under(first)}, unknown},

		// certain
		{"a child of the job's", facts{chain: under(inJob, sshd)}, certain("77.srv", ByAncestry)},
		{"a grandchild, at a terminal", facts{tty: 34816, chain: under(shell, inJob, sshd)},
			certain("77.srv", ByAncestry)},
		{"of the nearest", facts{chain: under(inOther, inJob, first)}, certain("78.srv", ByAncestry)},
		{"ancestry before environment", facts{job: "77.srv", chain: under(inOther, first)},
			certain("78.srv", ByAncestry)},
		{"ancestry below MoM", facts{chain: under(inJob, mom, first)}, certain("77.srv", ByAncestry)},
		{"a child of a job that is not listed", facts{job: "77.srv", chain: under(inGone, first)}, ours},
		{"a child of another user's job", facts{chain: under(theirs, first)}, unknown},
		{"the session's leader is in the job", facts{sid: 31, leader: &inJob, chain: under(first)},
			certain("77.srv", BySession)},
		{"the session's leader is outside", facts{sid: 23, leader: &shell, chain: under(sshd)}, login},
		{"the session's leader is another user's", facts{sid: 34, leader: &theirs, chain: under(first)}, unknown},
		{"the job's own session", facts{sid: 500, chain: under(first)}, certain("77.srv", BySession)},
		{"the leader of the job's own session", facts{pid: 500, sid: 500, chain: under(first)},
			certain("77.srv", BySession)},
		{"a login with the number of a job's session", facts{pid: 500, sid: 500, chain: sshd}, login},
		{"a login with that number, by systemd", facts{pid: 500, sid: 500, chain: under(first), cgroup: sessionScope},
			login},
		{"session 0 is none", facts{sid: 0, chain: under(first)}, unknown},
		{"another user's session", facts{sid: 900, chain: under(first)}, unknown},
		{"environment, below sshd without a terminal", facts{job: "77.srv", chain: under(shell, sshd)},
			certain("77.srv", ByEnvironment)},
		{"environment, below sshd at a terminal", facts{job: "77.srv", tty: 34816, chain: under(shell, sshd)}, login},
		{"environment, at a terminal of no login", facts{job: "77.srv", tty: 34816, chain: under(first)},
			certain("77.srv", ByEnvironment)},
		{"environment of another user's job", facts{job: "79.srv", chain: under(first)}, unknown},
		{"environment of a job that is over", facts{job: "1.srv", chain: under(first)}, unknown},

		// logins
		{"below sshd, with an environment of its own", facts{chain: under(shell, sshd)}, login},
		{"in a session of systemd", facts{tty: 1025, chain: under(first), cgroup: sessionScope}, login},
		{"at the console", facts{chain: under(shell, Relative{PID: 60, Program: "login"}, first), tty: 1025}, login},
		{"by a display manager", facts{chain: under(shell, Relative{PID: 60, Program: "gdm-session-worker"}, first)},
			login},
		{"by su", facts{job: "77.srv", tty: 34816, chain: under(Relative{PID: 60, Program: "su"}, first)}, login},
		{"by sudo", facts{chain: under(Relative{PID: 60, Program: "sudo"}, first)}, login},
		{"by the user's own su", facts{chain: under(Relative{PID: 60, UID: user}, first)}, unknown},

		// the rest
		{"a daemon", facts{chain: under(first)}, unknown},
		{"a daemon of a container", facts{chain: under(noInit)}, unknown},
		{"nothing is known", facts{}, unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.facts
			if f.uid == 0 {
				f.uid = user
			}
			if f.pid == 0 {
				f.pid = 4711
			}
			if f.age == 0 {
				f.age = time.Minute
			}
			got := Match(Facts{
				Process: proc.Process{PID: f.pid, UID: max(f.uid, 0), Session: f.sid, TTY: f.tty, Comm: f.comm,
					State: f.state, Kernel: f.kernel},
				In: f.in, JobID: f.job, Ours: f.ours, Qsub: f.qsub, Exe: f.exe,
				Chain: f.chain, Leader: f.leader, Cgroup: f.cgroup, Age: f.age, NoLogin: f.noLogin,
			}, jobs)
			if got != tt.want {
				t.Errorf("%v %+v, want %v %+v", got.Class, got, tt.want.Class, tt.want)
			}
		})
	}
	if len(tests) < 40 {
		t.Errorf("%d rows", len(tests))
	}
}

func TestClassHasAName(t *testing.T) {
	if Ours.String() != "ours" || Unknown.String() != "unknown" || Class(0).String() != "no class" ||
		Class(99).String() != "no class" {
		t.Errorf("%v %v %v %v", Ours, Unknown, Class(0), Class(99))
	}
}
