package mom

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
