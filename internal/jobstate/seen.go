package jobstate

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// seen is what a Store knows of its file as it is now: records that it read or wrote since anybody last wrote to it. An event reads the
// record of its job more than once, and to open, lock, map and close the file takes a hundred times what stat(2) takes.
//
// That nobody has written is told by the file's stamp, whose time of modification every writer of ours sets to one that it never had
// (touch): the kernel's own stands still for some milliseconds, in which two may write.
type seen struct {
	mu      sync.Mutex
	of      stamp
	records map[string][]byte // as stored; never changed, only replaced
	writing bool              // a writable transaction of this Store is on its way
}

// get returns what is stored for each of ids in the file at path; ok is false when that cannot be told without reading it.
func (s *seen) get(path string, ids []string) (records [][]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		b, found := s.records[id]
		if !found {
			return nil, false
		}
		records = append(records, b)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || stampIn(&st) != s.of || s.writing {
		return nil, false
	}
	return records, true
}

// write says that a writable transaction begins, until the function that it returns is called. Who asks meanwhile has to wait for it, as
// with the lock: what its callers have set going within it, such as a timer, may read the record before it is stored.
func (s *seen) write() (done func()) {
	set := func(writing bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writing = writing
	}
	set(true)
	return func() { set(false) }
}

// note takes over what a transaction read and wrote, which found the file as before and left it as after; where before is not known it
// takes over nothing. nil is a record that is not there, of which there is no end: it is not kept.
func (s *seen) note(before, after stamp, records map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != before {
		s.records = nil
	}
	s.of = after
	// Not one whose stamp says nothing, nor one of a file system that counts whole seconds.
	if before == (stamp{}) || after.mtime.Nsec == 0 {
		s.of, s.records = stamp{}, nil
		return
	}
	for id, b := range records {
		if b == nil {
			delete(s.records, id)
			continue
		}
		if s.records == nil {
			s.records = map[string][]byte{}
		}
		s.records[id] = b
	}
}

// touch gives the file at path, which has just been written to, a time of modification that it did not have before: later than the one
// that it was opened with. The caller has the lock.
func touch(path string, before stamp) error {
	at := time.Now().UnixNano()
	if had := before.mtime.Nano(); at <= had {
		at = had + 1
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(at)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW)
}
