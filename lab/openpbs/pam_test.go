//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

// startSSHD starts a second sshd of a node, at port 2222, with the lines of docs/pam.md in its PAM
// stack. It is called after a link, as its PAM stack is before OpenSSH 9.8.
const startSSHD = `ln -sf /usr/sbin/sshd /run/sshd-jobs
sed 's/^Port .*/Port 2222/; s/^UsePAM .*/UsePAM yes/; s/^PidFile .*/PidFile \/run\/sshd-jobs.pid/' \
	/etc/ssh/sshd_config >/etc/ssh/sshd-jobs_config
echo 'PAMServiceName sshd-jobs' >/etc/ssh/name
! /usr/sbin/sshd -t -f /etc/ssh/name -o HostKey=/etc/ssh/lab_host_key || cat /etc/ssh/name >>/etc/ssh/sshd-jobs_config
pam=$(command -v hookhost)' pam'
awk -v pam="$pam" '
	/^@include common-account/ { print "account required pam_exec.so quiet stdout " pam " account" }
	{ print }
	/pam_limits.so/ {
		print "session [success=ignore default=1] pam_exec.so quiet type=open_session " pam " environment"
		print "session optional pam_env.so envfile=/run/hookhost/pam.env"
		print "session required pam_exec.so quiet stdout type=open_session " pam " session"
	}' /etc/pam.d/sshd >/etc/pam.d/sshd-jobs
/run/sshd-jobs -f /etc/ssh/sshd-jobs_config`

// A user's login is part of one of the user's jobs on the node. A job that also runs on the host
// from which it comes precedes the newest. The login's usage is the job's, and ends with it. The
// login sees the job's private directories.
func TestLoginsArePartOfPBSsJobs(t *testing.T) {
	if *here {
		t.Skip("in a guest all that a test starts is part of a service: make test-openpbs")
	}
	needNodes(t, 2)
	settings(t, `[pam]
restrict = true
adopt = "newest"
[private]
dirs = [{path = "/dev/shm", size = "16mb"}]`, nodes...)
	for _, node := range nodes {
		t.Cleanup(func() { output("root", node, "kill $(cat /run/sshd-jobs.pid)") })
		on(t, node, startSSHD)
	}
	ssh := func(to, line string) string {
		return "ssh -p 2222 -o LogLevel=INFO " + to + " '" + line + "'"
	}
	wide := qsub(t, "alice", twoHosts, "sleep 1000")
	wide.running()
	late := qsub(t, "alice", small(nodes[1]), "sleep 1000")
	late.running()

	_, err := output("bob", nodes[0], ssh(nodes[1], "true"))
	if err == nil || !strings.Contains(err.Error(), "No login: bob has no job on "+nodes[1]+".") {
		t.Errorf("a login without a job: %v", err)
	}
	for _, tt := range []struct {
		from, to string
		job      *job
		launched bool
	}{
		{nodes[0], nodes[0], wide, true}, {nodes[0], nodes[1], wide, false}, {nodes[1], nodes[1], late, true},
	} {
		out := as(t, "alice", tt.from, ssh(tt.to,
			`echo "$PBS_JOBID,$TMPDIR,$PBS_NODEFILE,$(df -k --output=size /dev/shm | tail -1)"; cat /proc/self/cgroup`))
		variables, cgroups, _ := strings.Cut(out, "\n")
		words := strings.Split(variables, ",")
		if words[0] != tt.job.id || !inJob(cgroups, tt.job.id) {
			t.Errorf("from %s to %s: job %s: %s", tt.from, tt.to, tt.job.id, out)
		}
		if has := strings.Contains(words[1], tt.job.id) && strings.Contains(words[2], tt.job.id); has != tt.launched {
			t.Errorf("from %s to %s: TMPDIR and PBS_NODEFILE: %s", tt.from, tt.to, variables)
		}
		if size := strings.TrimSpace(words[3]); size != "16384" {
			t.Errorf("from %s to %s: /dev/shm has %s kb", tt.from, tt.to, size)
		}
	}
	as(t, "alice", nodes[0], ssh(nodes[1], "(ulimit -t 3; while :; do :; done) 2>/dev/null || :"))
	eventually(t, "the job's usage has that of its login", func() bool {
		u := wide.report(nodes[1]).Hosts[nodes[1]]
		return u != nil && u.CPUT != nil && *u.CPUT >= 2
	})
	as(t, "alice", nodes[0], ssh(nodes[1], "setsid -f sleep 1009 </dev/null >/dev/null 2>&1"))
	asleep := func() bool { return on(t, nodes[1], "pgrep -x -f 'sleep 1009' || :") != "" }
	eventually(t, "a program of a login is left", asleep)
	wide.deleted()
	eventually(t, "it ends with the job", func() bool { return !asleep() })
	late.deleted()
}
