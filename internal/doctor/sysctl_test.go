package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func TestWhatTheKernelLeavesOpenIsSaid(t *testing.T) {
	open := map[string]string{"kernel/io_uring_disabled": "0", "user/max_user_namespaces": "100",
		"user/max_net_namespaces": "100", "kernel/shm_rmid_forced": "0"}
	for _, tt := range []struct {
		name, set, value string
		minor            int
		want             string
	}{
		{"all is open", "", "", 18, "io_uring, packet sockets, System V IPC"},
		{"no io_uring for users", "kernel/io_uring_disabled", "2", 18, "packet sockets, System V IPC"},
		{"before users could poll", "", "", 10, "packet sockets, System V IPC"},
		{"no user namespaces", "user/max_user_namespaces", "0", 18, "io_uring, System V IPC"},
		{"no network namespaces", "user/max_net_namespaces", "0", 18, "io_uring, System V IPC"},
		{"Debian's switch", "kernel/unprivileged_userns_clone", "0", 18, "io_uring, System V IPC"},
		{"shared memory goes", "kernel/shm_rmid_forced", "1", 18, "io_uring, packet sockets"},
	} {
		values := maps.Clone(open)
		if tt.set != "" {
			values[tt.set] = tt.value
		}
		root := t.TempDir()
		for name, value := range values {
			path := filepath.Join(root, "sys", name)
			must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(value+"\n"), 0o644))
		}
		procfs, err := kernfs.Open(root)
		must.NoError(t, err)
		k := &kernel{cfg: config.Default(), roots: kernfs.Roots{Proc: procfs}, major: 5, minor: tt.minor}
		var found []string
		for _, f := range k.examineUnprotected() {
			found = append(found, f.What)
		}
		must.Equal(t, tt.name, tt.want, strings.Join(found, ", "))
		k.cfg.Private.CleanIPC = true
		for _, f := range k.examineUnprotected() {
			if f.What == "System V IPC" {
				t.Errorf("%s: with clean_ipc: %+v", tt.name, f)
			}
		}
	}
}
