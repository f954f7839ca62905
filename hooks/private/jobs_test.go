package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

var jobs = flag.Int("private.jobs", 20, "how many jobs TestJobsInARowLeaveNothing has")

// leave is a program that leaves files of each kind and System V IPC. Its arguments are what the
// names of the files begin with, the directory of POSIX message queues, and other directories.
const leave = `
use POSIX; use Socket;
sub check { $_[0] or die "$_[1]: $!" }
sub make { my $f; check(open($f, '>', $_[0]) && print($f 'x' x 500), $_[0]) }
my ($name, $queues, @dirs) = @ARGV;
for my $dir (@dirs) {
	check(chdir($dir), $dir);
	make($name); make("sem.$name"); make(".$name"); make("$name\na");
	check(mkfifo("$name.fifo", 0600), 'mkfifo');
	check(symlink('/etc/passwd', "$name.link"), 'symlink');
	my $s;
	check(socket($s, AF_UNIX, SOCK_STREAM, 0) && bind($s, pack_sockaddr_un("$name.socket")), 'socket');
	check(mkdir($_), $_), make("$_/file") for map { "$name.$_" } 'd', 'd/.e', 'd/.e/closed', 'closed', 'searched';
	check(link("$name.d/file", $_), $_) for "$name.hard", "$name.closed/hard";
	check(symlink('../..', "$name.d/up"), 'symlink');
	check(chmod($_->[0], "$name.$_->[1]"), $_->[1])
		for [0, 'd/file'], [0, 'd/.e/closed'], [0, 'closed'], [0100, 'searched'];
	for (1 .. 100) { my $d = $_ == 1 ? "$name.deep" : 'd'; check(mkdir($d) && chdir($d), $d); make('file') }
}
my $q;
check(open($q, '>', "$queues/$name"), 'queue'); # as mq_open(3) creates it
check(defined(shmget(0, 4096, 01600)) && defined(semget(0, 2, 01600)) && defined($q = msgget(0, 01600)), 'IPC');
check(msgsnd($q, pack('l! a*', 1, 'message'), 0), 'msgsnd');
`

// places are the directories that TestJobsInARowLeaveNothing uses instead of the machine's.
type places struct {
	*node
	vartmp, shm, mqueue string
	private, privateShm string // a job's alone
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	n := newNode(t)
	p := &places{n, n.dir + "/vartmp", n.dir + "/shm", n.dir + "/mqueue", n.dir + "/private", n.dir + "/private-shm"}
	mount := func(kind, at string) error {
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		return unix.Mount(kind, at, kind, unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	for _, dir := range []string{p.vartmp, p.shm, p.mqueue, p.private, p.privateShm} {
		must.NoError(t, os.Mkdir(dir, 0o755))
	}
	must.NoError(t, mount("tmpfs", p.shm), os.Mkdir(n.base(), 0o755))
	must.NoError(t, os.WriteFile(n.dir+"/leave", []byte(leave), 0o644))
	for _, dir := range []string{p.vartmp, p.shm, p.private, p.privateShm} {
		must.NoError(t, os.Chmod(dir, os.ModeSticky|0o777))
	}
	if err := mount("mqueue", p.mqueue); err != nil {
		kernfstest.Elsewhere(t, "this kernel has no POSIX message queues: %v", err)
	}
	p.restart()
	return p
}

// restart starts the hook's program anew.
func (p *places) restart() {
	p.t.Helper()
	p.start(tmpSettings, runtimeSettings, `"clean_ipc":true`,
		fmt.Sprintf(`"clean_dirs":[%q,%q,%q,%q]`, p.shared, p.vartmp, p.shm, p.mqueue),
		fmt.Sprintf(`"dirs":[{"path":%q,"base":%q},{"path":%q,"size":"1mb"}]`, p.private, p.base(), p.privateShm))
}

// nameOf begins the names of a user's files.
func nameOf(uid int) string { return fmt.Sprint(testPrefix(), ".", uid) }

// fill is a script that leaves something in every place: of a job, or of a user without one.
func (p *places) fill(uid int, job *hostapi.Job) string {
	dirs := []string{p.shared, p.vartmp, p.shm}
	if job != nil {
		dirs = append(dirs, p.private, p.privateShm, filepath.Join(p.dir, "run/tmp", job.ID),
			filepath.Join(p.dir, "run/runtime", strconv.Itoa(uid)))
	}
	return fmt.Sprintf("perl %s/leave %s %s %s", p.dir, nameOf(uid), p.mqueue, strings.Join(dirs, " "))
}

// left lists the files in all places, and what is left of namespaces. Only times of users' files
// count.
func (p *places) left() (list []string) {
	p.t.Helper()
	for _, dir := range []string{p.shared, p.vartmp, p.shm, p.mqueue, p.base(), p.dir + "/run"} {
		must.NoError(p.t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Dir(path) == p.mqueue && !strings.HasPrefix(filepath.Base(path), testPrefix()) {
				return err // the machine's
			}
			var st unix.Stat_t
			err = unix.Lstat(path, &st)
			line := fmt.Sprintf("%s %o uid %d", path, st.Mode, st.Uid)
			if st.Uid != 0 {
				line += fmt.Sprint(" ", st.Ino, st.Nlink, st.Size, st.Mtim, st.Ctim)
			}
			list = append(list, line)
			return err
		}))
	}
	return append(list, p.node.left()...)
}

// Jobs leave files and IPC of each kind in each place. What a user without jobs, and a job that
// lives on, have in the same places stays.
func TestJobsInARowLeaveNothing(t *testing.T) {
	t.Cleanup(func() { kernfstest.RemoveUnit(t, testPrefix()) })
	p := newPlaces(t)
	other, live := newOwner(), jobOf("0.srv", newOwner())
	for _, uid := range []int{other, live.Owner.UID} {
		t.Cleanup(func() {
			_, err := removeIPC(procfs(t), uid, window{until: time.Now()})
			must.NoError(t, err, os.RemoveAll(filepath.Join(p.mqueue, nameOf(uid))))
		})
	}
	p.as(other, p.fill(other, nil))
	p.call(hostapi.EventBegin, live)
	gate := p.dir + "/gate"
	must.NoError(t, unix.Mkfifo(gate, 0o600), os.Chown(gate, live.Owner.UID, 0))
	program := p.program(live.Owner.UID, fmt.Sprintf(`set -e; %s
list() { find %s %s %s -printf '%%p %%m %%i %%n %%s %%T@ %%C@\n' 2>/dev/null || :; }
before=$(list); read x <%s || :; [ "$before" = "$(list)" ]; echo "$before" | wc -l`,
		p.fill(live.Owner.UID, live), p.private, p.privateShm, filepath.Join(p.dir, "run/tmp", live.ID), gate))
	_, err := program.launch(live, nil)
	must.NoError(t, err)
	var open int
	must.Eventually(t, "the live job has left everything", func() bool {
		open, err = unix.Open(gate, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		return err == nil
	})
	before := p.left()

	users := []int{newOwner(), newOwner(), newOwner()} // each has a job after the other
	for i := range *jobs {
		uid := users[i%len(users)]
		job := jobOf(fmt.Sprintf("%d.srv", i+1), uid)
		p.call(hostapi.EventBegin, job)
		program := p.program(uid, p.fill(uid, job))
		_, err := program.launch(job, nil)
		must.NoError(t, err)
		must.Equal(t, "the job prints", "", program.prints())
		if i < len(users) {
			must.Equal(t, "IPC objects of the job", 3, ipcOf(t, uid))
			if left := len(p.left()) - len(before); left < 600 {
				t.Fatalf("the job left %d files", left)
			}
		}
		if i%10 == 3 {
			p.restart()
			p.hostCall(hostapi.EventStartup, live, job)
		}
		if i%10 == 6 {
			p.call(hostapi.EventAbort, job)
		} else {
			p.call(hostapi.EventEnd, job)
		}
		must.Equal(t, "left after "+job.ID, before, p.left())
		must.Equal(t, "IPC objects left after "+job.ID, 0, ipcOf(t, uid))
	}
	for _, uid := range []int{other, live.Owner.UID} {
		must.Equal(t, "IPC objects of another", 3, ipcOf(t, uid))
	}
	must.NoError(t, unix.Close(open))
	if lines, err := strconv.Atoi(strings.TrimSpace(program.prints())); err != nil || lines < 200 {
		t.Errorf("the live job has %d files, %v", lines, err)
	}
	p.call(hostapi.EventEnd, live)
	must.Equal(t, "IPC objects of the live job", 0, ipcOf(t, live.Owner.UID))
	for _, line := range p.left() {
		if strings.Contains(line, nameOf(live.Owner.UID)) || strings.Contains(line, live.ID) {
			t.Errorf("the live job left %s", line)
		}
	}
}
