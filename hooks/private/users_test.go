package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// While a process of the user is left, in or outside of a job, nothing is removed. Then
// exechost_periodic removes it, even if the program has been restarted.
func TestLeftoversWaitForTheUsersLastProcess(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	ctx, kill := context.WithCancel(t.Context())
	login := command(ctx, uid, "exec sleep 600")
	must.NoError(t, login.Start())
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, "echo >file")
	n.call(hostapi.EventEnd, job)
	tick()
	n.as(uid, "echo >logins")
	n.start(cleanSettings)
	n.hostCall(hostapi.EventStartup)
	n.hostCall(hostapi.EventPeriodic)
	must.Equal(t, "left", []string{"file", "logins"}, names(t, n.shared))
	must.Equal(t, "users to be cleaned", []string{strconv.Itoa(uid)}, n.marks())
	kill()
	login.Wait()
	want := none
	if knowsBirth(t, n.shared) {
		want = []string{"logins"} // was made after the job's end
	}
	must.Eventually(t, "exechost_periodic removes it", func() bool {
		n.hostCall(hostapi.EventPeriodic)
		return slices.Equal(names(t, n.shared), want)
	})
}

// A program that starts anew knows the jobs that live.
func TestStartupSparesUsersWithJobs(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, "echo >file")
	n.start(cleanSettings)
	n.hostCall(hostapi.EventStartup, job)
	n.hostCall(hostapi.EventPeriodic, job)
	must.Equal(t, "left", []string{"file"}, names(t, n.shared))
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "left after the end", none, names(t, n.shared))
}

// What a user makes while clean_dirs is not set is not removed later.
func TestUsersAreForgottenWithoutCleanDirs(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.start(tmpSettings)
	n.hostCall(hostapi.EventStartup, job)
	must.Equal(t, "users to be cleaned", none, n.marks())
	n.call(hostapi.EventEnd, job)
	n.as(uid, "echo >file")
	n.start(cleanSettings)
	n.hostCall(hostapi.EventStartup)
	n.hostCall(hostapi.EventPeriodic)
	must.Equal(t, "left", []string{"file"}, names(t, n.shared))
}

func TestNothingOfRootsIsRemoved(t *testing.T) {
	n := newNode(t, cleanSettings)
	job := jobOf("7.srv", 0)
	n.call(hostapi.EventBegin, job)
	must.NoError(t, os.WriteFile(filepath.Join(n.shared, "file"), nil, 0o600))
	n.call(hostapi.EventEnd, job)
	n.hostCall(hostapi.EventPeriodic)
	must.Equal(t, "left", []string{"file"}, names(t, n.shared))
	must.Equal(t, "users to be cleaned", none, n.marks())
}

// A removal that takes long ends when the user's next job begins. The one after that job removes
// everything since the first one.
func TestBeginEndsARemoval(t *testing.T) {
	log := logrus.New()
	log.SetOutput(t.Output())
	began := make(chan window)
	result := make(chan error)
	live := newLiveJobs()
	u := newUsers(filepath.Join(t.TempDir(), "users"), live, func(ctx context.Context, _ int, w window) error {
		began <- w
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, &patience{}, logrus.NewEntry(log))
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no event waits
	must.NoError(t, u.begin(ctx, 1000))
	u.end(ctx, 1000)
	first := must.Receive(t, "a removal", began)
	live.add(jobOf("8.srv", 1000))
	must.NoError(t, u.begin(t.Context(), 1000)) // waits until it has ended
	tick()
	u.end(ctx, 1000) // of another job
	live.remove("8.srv")
	u.end(ctx, 1000)
	second := must.Receive(t, "another removal", began)
	if !second.since.Equal(first.since) || !second.until.After(first.until) {
		t.Errorf("%v after %v", second, first)
	}
	u.end(ctx, 1000) // the event may be repeated
	result <- errors.New("test")
	must.Eventually(t, "it has ended", func() bool { u.mu.Lock(); defer u.mu.Unlock(); return len(u.works) == 0 })
	must.NoError(t, u.cleanAll())
	if third := must.Receive(t, "a removal after a failure", began); !third.until.Equal(second.until) {
		t.Errorf("until %v, the last job ended at %v", third.until, second.until)
	}
	result <- nil
	must.Eventually(t, "the user is forgotten", func() bool { return len(names(t, u.dir)) == 0 })
}
