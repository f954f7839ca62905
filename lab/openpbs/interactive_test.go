//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// owners are the users of the processes in the job's cgroup on a node, each once.
func (j *job) owners(node string) string {
	j.t.Helper()
	return on(j.t, node, "ps -o user= -p $(paste -sd, "+j.cgroups(node)[0]+"/cgroup.procs) | sort -u")
}

// The shell and its children are in the job. The processes of MoM that pass on what is typed and
// shown are in its session, and are not. Whatever ignores the hang-up ends with the job.
func TestTerminalsEndEndsTheInteractiveJobWithAllItsProcesses(t *testing.T) {
	node := nodes[len(nodes)-1]
	createResource(t, "walltime_signal", "type=string,flag=m")
	warning := fmt.Sprintf(" -l walltime=10:00,walltime_signal=B:USR1@%d", 600-20*slowness())
	x := openTerminal(t, "", small(node)+warning)
	x.types("trap warned=yes USR1\n")
	if cgroups := x.prints("cat /proc/self/cgroup"); !inJob(cgroups, x.id) {
		t.Errorf("a child of the shell is in %s", cgroups)
	}
	must.Equal(t, "memory limit", "67108864", x.read(node, "memory.limit_in_bytes", "memory.max"))
	must.Equal(t, "who has processes in the job", "alice", x.owners(node))

	x.types("sleep 1061\n")
	sleeps := func(seconds string) bool {
		return on(t, node, "pgrep -u alice -x -f 'sleep "+seconds+"' || :") != ""
	}
	eventually(t, "the shell waits", func() bool { return sleeps("1061") })
	x.types("\x03echo status $?\n")
	x.shows("status 130")
	x.types("until [ $warned ]; do sleep 0.1; done; echo war''ned\n")
	x.shows("warned\r\n")

	x.types("setsid -f sleep 1062; (trap '' HUP TERM; sleep 1063) &\n")
	eventually(t, "two daemons run", func() bool { return sleeps("1062") && sleeps("1063") })
	x.hangUp()
	x.ended()
	for _, seconds := range []string{"1062", "1063"} {
		if sleeps(seconds) {
			t.Errorf("sleep %s is left", seconds)
		}
	}
	eventually(t, "MoM has no process on a terminal", func() bool {
		return on(t, node, "ps -C pbs_mom -o tty= | grep pts || :") == ""
	})
	r, accounting := x.report(node), x.end()
	if r.Hosts[node].CPUT == nil || *r.Hosts[node].CPUT <= 0 || accounting["resources_used.cput"] == "" {
		t.Errorf("the report has %+v, accounting %v", r.Hosts[node], accounting)
	}
}

// While hooks of execjob_launch run, the terminal's keys already reach MoM's process that becomes
// the shell. The job then starts as any other does, and its limit holds.
func TestKeysDoNotInterruptTheStartOfAnInteractiveJob(t *testing.T) {
	newSiteHook(t, "slow", "execjob_launch", 1, "import time\ntime.sleep(3)")
	x := openTerminal(t, "", small(nodes[0]))
	for range 4 {
		time.Sleep(500 * time.Millisecond) // the keys that come before qsub passes them on are its own
		x.types("\x1c\x03\x1a")
	}
	if cgroups := x.prints("cat /proc/self/cgroup"); !inJob(cgroups, x.id) {
		t.Errorf("a child of the shell is in %s", cgroups)
	}
	x.types(tooMuch + "; exit\n")
	x.shows("qsub: job " + x.id + " completed")
	must.Equal(t, "", map[string]string{nodes[0]: oomText}, x.diagMessages())
	x.gone()
}

// display starts an X server of alice's on the first node until the end of the test, and returns
// its DISPLAY.
func display(t *testing.T) string {
	t.Helper()
	dir := shared(t)
	as(t, "alice", nodes[0], `cd `+dir+`; rm -f ~/.Xauthority
setsid -f sh -c 'echo $$ >pid; exec Xvfb -displayfd 5 -nolisten tcp -screen 0 64x64x8' 5>number >log 2>&1
until [ -s number ]; do sleep 0.1; done; xauth -q add :$(cat number) . $(mcookie)`)
	t.Cleanup(func() { output("root", nodes[0], "kill $(cat "+dir+"/pid); rm -f ~alice/.Xauthority") })
	return ":" + on(t, nodes[0], "cat "+dir+"/number")
}

// X11 goes by MoM's process outside the job, which listens for the job's clients. It serves a job
// with a /tmp of its own too, and goes with the job, clients or not.
func TestClientsOfAnInteractiveJobReachTheDisplayOfItsUser(t *testing.T) {
	needNodes(t, 2)
	node := nodes[1]
	settings(t, `[private]
dirs = [{path = "/tmp", size = "16mb"}]`, node)
	x := openTerminal(t, "DISPLAY="+display(t), "-X "+small(node))
	if text := x.prints("xdpyinfo"); !strings.Contains(text, "dimensions:    64x64 pixels") {
		t.Errorf("xdpyinfo prints %s", text)
	}
	port := on(t, node, "ss -Hltn | grep -o '127.0.0.1:60[0-9]*'")
	x.types("xmessage hello &\n")
	eventually(t, "a client is connected", func() bool {
		return on(t, node, "ss -Htnp dst "+port+" | grep -c xmessage || :") == "1"
	})
	must.Equal(t, "who has processes in the job", "alice", x.owners(node))
	x.hangUp()
	x.ended()
	eventually(t, "neither client nor connection is left", func() bool {
		return on(t, node, "pgrep -x xmessage; ss -Htan | grep '"+port+"' | grep -v TIME-WAIT || :") == ""
	})
	if text := x.notes(node); len(text) > 0 {
		t.Errorf("the report has notes %q", text)
	}
}

// kerberos makes a realm LAB until the end of the test. alice has a ticket, a node has its keys,
// and MoM there encrypts.
func kerberos(t *testing.T, node string) {
	t.Helper()
	keys := shared(t)
	for _, n := range nodes {
		write(t, n, "/etc/krb5.conf", `[libdefaults]
default_realm = LAB
dns_canonicalize_hostname = false
rdns = false
default_ccache_name = FILE:/dev/shm/krb5cc_%{uid}
[realms]
LAB = {
kdc = `+nodes[0]+`
}`)
		t.Cleanup(func() { output("root", n, "rm -f /etc/krb5.keytab /dev/shm/krb5cc_*") })
	}
	on(t, nodes[0], `mkdir -p /etc/krb5kdc /var/lib/krb5kdc; kdb5_util create -s -r LAB -P master
kadmin.local addprinc -pw alices alice; kadmin.local addprinc -randkey host/`+node+`
kadmin.local ktadd -k `+keys+`/keytab host/`+node+`; krb5kdc -P `+keys+`/kdc.pid </dev/null >/dev/null 2>&1`)
	t.Cleanup(func() { output("root", nodes[0], "kill $(cat "+keys+"/kdc.pid); kdb5_util destroy -f") })
	as(t, "alice", nodes[0], "echo alices | kinit alice")
	restart := func(change string) {
		on(t, node, change+"; kill -KILL $("+momPid+")")
		must.NoError(t, momIsUp(node, goesOn))
	}
	restart("cp " + keys + "/keytab /etc/krb5.keytab; cp /etc/pbs.conf " + keys + "; " +
		"echo PBS_SUPPORTED_AUTH_METHODS=resvport,gss >>/etc/pbs.conf")
	t.Cleanup(func() { restart("cp " + keys + "/pbs.conf /etc/pbs.conf") })
}

// Encryption is between qsub and MoM: the job is as any other, and so is its end.
func TestEncryptedInteractiveJobIsConfinedAndEndsWithItsTerminal(t *testing.T) {
	needNodes(t, 2)
	node := nodes[1]
	if on(t, node, "ls /opt/pbs/lib/libauth_gss.so || :") == "" {
		kernfstest.Elsewhere(t, "an OpenPBS with libauth_gss.so: lab/openpbs/build")
	}
	kerberos(t, node)
	x := openTerminal(t, "PBS_INTERACTIVE_ENCRYPT_METHOD=gss DISPLAY="+display(t), "-X "+small(node))
	if cgroups := x.prints("cat /proc/self/cgroup"); !inJob(cgroups, x.id) {
		t.Errorf("a child of the shell is in %s", cgroups)
	}
	if text := x.prints("xdpyinfo"); !strings.Contains(text, "dimensions:    64x64 pixels") {
		t.Errorf("xdpyinfo prints %s", text)
	}
	must.Equal(t, "who has processes in the job", "alice", x.owners(node))
	if tickets := as(t, "alice", nodes[0], "klist"); !strings.Contains(tickets, "host/"+node+"@LAB") {
		t.Errorf("qsub has not asked %s who it is: %s", node, tickets)
	}
	x.hangUp()
	x.ended()
}
