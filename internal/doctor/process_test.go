package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestMissingCapabilitiesAreFound(t *testing.T) {
	all := ^uint64(0)
	for _, tt := range []struct {
		rights rights
		want   []string
		blocks bool
	}{
		{rights{uid: 0, capabilities: all, known: true}, []string{"user", "capabilities"}, false},
		{rights{uid: 1000, capabilities: 0, known: true}, []string{"user"}, false},
		// The daemon's are for anybody to see.
		{rights{uid: 1000, daemon: 7, capabilities: all &^ (1 << unix.CAP_SYSLOG), known: true},
			[]string{"user", "CAP_SYSLOG"}, false},
		{rights{uid: 0, capabilities: 0, known: false}, []string{"user"}, false},
		{rights{uid: 0, capabilities: all &^ (1 << unix.CAP_SYS_RESOURCE), known: true},
			[]string{"user", "CAP_SYS_RESOURCE"}, false},
		{rights{uid: 0, capabilities: all &^ (1 << unix.CAP_BPF), known: true}, []string{"user", "capabilities"},
			false},
		{rights{uid: 0, capabilities: all &^ (1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_KILL), known: true},
			[]string{"user", "CAP_SYS_ADMIN", "CAP_KILL"}, true},
	} {
		var names []string
		blocks := false
		for _, f := range tt.rights.examine() {
			names, blocks = append(names, f.What), blocks || f.Blocks
		}
		if !slices.Equal(names, tt.want) || blocks != tt.blocks {
			t.Errorf("%+v: %v, blocks %t, want %v, %t", tt.rights, names, blocks, tt.want, tt.blocks)
		}
	}
}

// The call is tried on this kernel: its answer is that of a kernel that has it, or that has not.
func TestSystemCallsAreProbed(t *testing.T) {
	if err := probePidfd(); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		t.Errorf("pidfd: %v", err)
	}
	for _, tt := range []struct {
		got    Finding
		status Status
		found  string
	}{
		{examinePidfd(nil), OK, ""},
		{examinePidfd(unix.ENOSYS), Degraded, "not there"},
		{examinePidfd(unix.EPERM), Degraded, "forbidden"},
	} {
		if tt.got.Status != tt.status || !strings.Contains(tt.got.Found, tt.found) {
			t.Errorf("%+v: want %s, %q", tt.got, tt.status, tt.found)
		}
	}
}

// The rights of this process are read, where the pid of the daemon is nobody's.
func TestRightsOfThisProcessAreRead(t *testing.T) {
	proc, err := procfs.NewDefaultFS()
	must.NoError(t, err)
	r := readRights(proc, 1<<22+1)
	if !r.known || r.daemon != 0 || r.uid == 0 && !r.has(unix.CAP_KILL) {
		t.Errorf("%+v", r)
	}
}
