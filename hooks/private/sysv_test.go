package main

import (
	"slices"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func procfs(t testing.TB) *kernfs.FS {
	t.Helper()
	f, err := kernfs.Open("/proc")
	must.NoError(t, err)
	return f
}

// ipcOf counts a user's System V IPC objects.
func ipcOf(t testing.TB, uid int) (n int) {
	t.Helper()
	for _, kind := range ipcKinds {
		text, err := procfs(t).ReadFile("sysvipc/" + kind.file)
		must.NoError(t, err)
		ids, err := leftIPC(string(text), kind.id, uid, window{until: time.Now()})
		must.NoError(t, err)
		n += len(ids)
	}
	return n
}

// An object that was there before the user's first job stays.
func TestIPCOfALoginStays(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	n.as(uid, "ipcmk -M 4096 -Q -S 2 >/dev/null")
	defer removeIPC(procfs(t), uid, window{until: time.Now()})
	time.Sleep(1100 * time.Millisecond) // its times are in seconds
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, "ipcmk -M 4096 -Q -S 2 >/dev/null")
	must.Equal(t, "objects", 6, ipcOf(t, uid))
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "objects left", 3, ipcOf(t, uid))
}

// An object that a job has given to another user goes, too, as its maker could remove it.
func TestIPCThatWasGivenAwayGoes(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, `/usr/bin/python3 - <<'!'
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
id = libc.shmget(0, 4096, 0o1600)
ds = ctypes.create_string_buffer(256)
libc.shmctl(id, 2, ds)  # IPC_STAT
struct.pack_into("I", ds, 4, 4_000_000_000)  # shm_perm.uid
assert libc.shmctl(id, 1, ds) == 0, ctypes.get_errno()  # IPC_SET
!`)
	defer removeIPC(procfs(t), uid, window{until: time.Now()})
	must.Equal(t, "objects", 1, ipcOf(t, uid))
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "objects left", 0, ipcOf(t, uid))
}

func TestLeftIPC(t *testing.T) {
	const shm = " key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n"
	object := func(id, uid, cuid, ctime string) string {
		return " 0 " + id + " 1600 4096 10 0 0 " + uid + " 5 " + cuid + " 5 0 0 " + ctime + " 0 0\n"
	}
	w := window{time.Unix(100, 0), time.Unix(200, 5)}
	for _, tt := range []struct {
		name, text string
		want       []int
		fails      bool
	}{
		{name: "none", text: shm},
		{name: "in the window", text: shm + object("1", "7", "7", "100") + object("2", "7", "7", "200"),
			want: []int{1, 2}},
		{name: "outside", text: shm + object("1", "7", "7", "99") + object("2", "7", "7", "201")},
		{name: "another's", text: shm + object("1", "8", "8", "150") + object("2", "7", "8", "150")},
		{name: "given to another", text: shm + object("3", "8", "7", "150"), want: []int{3}},
		{name: "truncated", text: shm + object("1", "7", "7", "150") + " 0 2 1600\n", want: []int{1}, fails: true},
		{name: "other columns", text: "key shmid uid\n0 1 7\n", fails: true},
		{name: "no number", text: shm + object("x", "7", "7", "150"), fails: true},
	} {
		got, err := leftIPC(tt.text, "shmid", 7, w)
		if !slices.Equal(got, tt.want) || (err != nil) != tt.fails {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}
