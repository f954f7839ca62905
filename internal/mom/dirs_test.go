package mom

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// TestTmpDirIsRemoved has the job leave things behind that lead elsewhere.
func TestTmpDirIsRemoved(t *testing.T) {
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	must.NoError(t, os.WriteFile(kept, nil, 0o600))
	spec := shell(`set -e
		echo "$TMPDIR"; stat -c %a "$TMPDIR"
		cd "$TMPDIR"; mkdir -p a/b; touch a/b/file; chmod 0 a/b
		ln -s ` + outside + ` link; ln -s ../.. a/up; ln -s ` + kept + ` a/file`)
	spec.TmpDir = t.TempDir()
	engine := &recorder{answer: answers{hostapi.EventEnd: func(*hostapi.Request) (*hostapi.Outcome, error) {
		if _, err := os.Stat(filepath.Join(spec.TmpDir, "pbs.12.srv")); err != nil {
			t.Errorf("at the end event: %v", err)
		}
		return nil, nil
	}}}
	got, result, err := outputOf(t, engine, spec)
	if want := spec.TmpDir + "/pbs.12.srv\n700\n"; err != nil || result.ExitStatus != 0 || got != want {
		t.Errorf("output %q, exit status %d, %v; want %q", got, result.ExitStatus, err, want)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("outside the directory: %v", err)
	}
	if left, err := os.ReadDir(spec.TmpDir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// inMemory returns a directory in which many files are made in no time.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hookhost")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A signal ends the removal of a huge TMPDIR. The rest can be found by the node file, and removed.
func TestSignalEndsTheRemovalOfTMPDIR(t *testing.T) {
	spec := shell(`cd "$TMPDIR"; mkdir d; cd d; seq 30000 | xargs touch`)
	spec.TmpDir, spec.AuxDir = inMemory(t), t.TempDir()
	var result Result
	var err error
	for try := 0; err == nil && try < 5; try++ { // the removal may be done before it gets a signal
		result, err = signalledWhenItHasEnded(t, spec)
	}
	if result.ExitStatus != 0 || err == nil || !strings.Contains(err.Error(), errInterrupted.Error()) {
		t.Errorf("exit status %d, %v; want 0 and that the removal was interrupted", result.ExitStatus, err)
	}
	if _, err := os.Stat(filepath.Join(spec.AuxDir, "12.srv")); err != nil {
		t.Errorf("node file: %v", err)
	}
	left, err := LeftIn(spec.TmpDir, map[string]int{"12.srv": os.Getuid()})
	if err != nil || len(left) != 1 {
		t.Fatalf("left: %v, %v", left, err)
	}
	for range 2 {
		must.NoError(t, left[0].Remove(t.Context()))
	}
	if left, err := os.ReadDir(spec.TmpDir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// signalledWhenItHasEnded runs the job, with a signal every millisecond from its end event on.
func signalledWhenItHasEnded(t *testing.T, spec Spec) (Result, error) {
	t.Helper()
	signals, over := make(chan os.Signal, 1), make(chan struct{})
	spec.Signals = signals
	var sending sync.WaitGroup
	engine := &recorder{answer: answers{hostapi.EventEnd: func(*hostapi.Request) (*hostapi.Outcome, error) {
		sending.Go(func() {
			for tick := time.NewTicker(time.Millisecond); ; {
				select {
				case <-tick.C:
					select {
					case signals <- unix.SIGTERM:
					default:
					}
				case <-over:
					tick.Stop()
					return
				}
			}
		})
		return nil, nil
	}}}
	_, result, err := outputOf(t, engine, spec)
	close(over)
	sending.Wait()
	return result, err
}

// A node file stays as long as its TMPDIR does, even if that is renamed while the directory is read
// that both names are in.
func TestNodefileStaysWhileItsTMPDIRIsRenamed(t *testing.T) {
	tmp, aux := inMemory(t), t.TempDir()
	for i := range 2000 { // so that reading takes a while
		must.NoError(t, os.WriteFile(filepath.Join(tmp, fmt.Sprint(i)), nil, 0o600))
	}
	left, node := Left{Dir: tmp, Name: "pbs.12.srv", UID: os.Getuid()}, filepath.Join(aux, "12.srv")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for round := range 100 {
		must.NoError(t, os.Mkdir(filepath.Join(tmp, left.Name), 0o700), os.WriteFile(node, nil, 0o600))
		var removing sync.WaitGroup
		removing.Go(func() {
			time.Sleep(time.Duration(round) * 20 * time.Microsecond)
			left.Remove(over) // it is renamed, and nothing more
		})
		must.NoError(t, RemoveNodefile("12.srv", aux, tmp, left.UID))
		removing.Wait()
		if _, err := os.Stat(node); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		renamed, err := filepath.Glob(filepath.Join(tmp, "pbs.*"))
		must.NoError(t, err)
		must.Equal(t, "directories", 1, len(renamed))
		must.NoError(t, os.Remove(renamed[0]))
	}
	must.NoError(t, RemoveNodefile("12.srv", aux, tmp, left.UID))
	if _, err := os.Stat(node); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a TMPDIR: %v", err)
	}
}

// A tree is removed however deep it is.
func TestDeepTMPDIRIsRemoved(t *testing.T) {
	tmp := inMemory(t)
	dir, err := os.OpenRoot(tmp)
	must.NoError(t, err)
	must.NoError(t, dir.Mkdir("pbs.12.srv", 0o700))
	below, err := dir.OpenRoot("pbs.12.srv")
	must.NoError(t, err, dir.Close())
	for range 5 * deepest {
		must.NoError(t, below.WriteFile("file", nil, 0o600), below.Mkdir("d", 0o700))
		next, err := below.OpenRoot("d")
		must.NoError(t, err, below.Close())
		below = next
	}
	must.NoError(t, below.Close())
	must.NoError(t, Left{Dir: tmp, Name: "pbs.12.srv", UID: os.Getuid()}.Remove(t.Context()))
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file under the name of a job's TMPDIR prevents no job from running, nor from having a directory
// of its own.
func TestTmpDirIsThereAlready(t *testing.T) {
	const name = "pbs.12.srv"
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		own  bool
	}{
		{"the job's user's own", func(t *testing.T, path string) { must.NoError(t, os.Mkdir(path, 0o700)) }, true},
		{"a link", func(t *testing.T, path string) { must.NoError(t, os.Symlink(t.TempDir(), path)) }, false},
		{"a file", func(t *testing.T, path string) { must.NoError(t, os.WriteFile(path, nil, 0o600)) }, false},
		{"another user's", func(t *testing.T, path string) {
			kernfstest.NeedRoot(t)
			must.NoError(t, os.Mkdir(path, 0o777))
			must.NoError(t, os.Chown(path, 65534, 65534))
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := shell(`echo "$TMPDIR"; stat -c %u:%a "$TMPDIR"`)
			spec.TmpDir = t.TempDir()
			path := filepath.Join(spec.TmpDir, name)
			tt.make(t, path)
			got, result, err := outputOf(t, &recorder{}, spec)
			if !result.Started || result.ExitStatus != 0 || err != nil {
				t.Errorf("Run = %+v, %v; want started", result, err)
			}
			dir, mode, _ := strings.Cut(got, "\n")
			if (dir == path) != tt.own || !strings.HasPrefix(dir, path) ||
				mode != fmt.Sprintf("%d:700\n", os.Getuid()) {
				t.Errorf("TMPDIR, owner and mode %q; want %s itself: %v", got, path, tt.own)
			}
			if _, err := os.Lstat(path); tt.own != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("afterwards: %v", err)
			}
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("TMPDIR is left: %v", err)
			}
		})
	}
}

// A job's id may end as the name does that nobody can know, by the name of its server.
func TestTmpDirIsThereAlreadyOfALongName(t *testing.T) {
	spec := shell(`echo "$TMPDIR"`)
	spec.Job.ID = "12.abcdefghijklmnopqrstuvwxyz"
	spec.TmpDir = t.TempDir()
	path := filepath.Join(spec.TmpDir, "pbs."+spec.Job.ID)
	must.NoError(t, os.WriteFile(path, nil, 0o600))
	got, result, err := outputOf(t, &recorder{}, spec)
	if dir := strings.TrimSpace(got); !result.Started || err != nil || dir == path || !strings.HasPrefix(dir, path) {
		t.Errorf("TMPDIR %q, Run = %+v, %v; want another directory than %s", got, result, err, path)
	}
}
