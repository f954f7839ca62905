package delivery

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestOwnerFindsTheLastRunOfAJob(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"a directory of root's": 0o755,
		"a directory like /tmp": 0o777 | os.ModeSticky} {
		t.Run(name, func(t *testing.T) {
			dir := commonDir(t, mode)
			for status := range 2 {
				must.NoError(t, writeFiles(t.Context(), dir, reportOf("12[3].s", status)))
			}
			var folder unix.Stat_t
			must.NoError(t, unix.Stat(dir+"/nobody", &folder))
			if folder.Uid != nobody || folder.Mode&0o777 != 0o700 {
				t.Errorf("the folder is of %d with mode %o", folder.Uid, folder.Mode)
			}
			var r struct {
				Job    string
				Status int `json:"exit_status"`
			}
			for _, name := range []string{"12[3].s.json", "12[3].s.html"} {
				path := filepath.Join(dir, "nobody", name)
				text, err := os.ReadFile(path)
				must.NoError(t, err)
				var st unix.Stat_t
				must.NoError(t, unix.Stat(path, &st))
				if st.Uid != nobody || st.Gid != nobody || st.Mode != unix.S_IFREG|0o600 {
					t.Errorf("%s is of %d with mode %o", path, st.Uid, st.Mode)
				}
				if strings.HasSuffix(name, "json") {
					must.NoError(t, json.Unmarshal(text, &r))
				} else if !strings.Contains(string(text), "<html") || !strings.Contains(string(text), "12[3].s") {
					t.Errorf("%s", text)
				}
			}
			if r.Job != "12[3].s" || r.Status != 1 {
				t.Errorf("%+v", r)
			}
			entries, err := os.ReadDir(dir + "/nobody")
			must.NoError(t, err)
			must.Equal(t, "files", 2, len(entries))
		})
	}
}

// A link that the owner makes is refused or replaced, and what it points to stays as it is.
func TestLinksOfTheOwnerAreNotFollowed(t *testing.T) {
	dir := commonDir(t, 0o777|os.ModeSticky)
	theirs := func(path string) { must.NoError(t, os.Lchown(path, nobody, nobody)) }
	target := filepath.Join(dir, "target") // the owner could write it
	must.NoError(t, os.WriteFile(target, []byte("before"), 0o666))
	theirs(target)
	elsewhere := filepath.Join(dir, "elsewhere")
	must.NoError(t, os.Mkdir(elsewhere, 0o777))
	theirs(elsewhere)
	folder := filepath.Join(dir, "nobody")

	must.NoError(t, os.Symlink(elsewhere, folder))
	if err := writeFiles(t.Context(), dir, reportOf("1.s", 0)); !errors.Is(err, unix.ELOOP) &&
		!errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a link for a folder: %v", err)
	}
	must.NoError(t, os.Remove(folder), os.Mkdir(folder, 0o700))
	theirs(folder)
	for _, name := range []string{"1.s.json", ".1.s.html.tmp"} {
		must.NoError(t, os.Symlink(target, filepath.Join(folder, name)))
	}
	must.NoError(t, writeFiles(t.Context(), dir, reportOf("1.s", 0)))
	before, err := os.ReadFile(target)
	must.NoError(t, err)
	must.Equal(t, "the target of a link", "before", string(before))
	if info, err := os.Lstat(filepath.Join(folder, "1.s.json")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("1.s.json: %v, %v", info, err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("elsewhere: %v, %v", left, err)
	}
}

func TestDirectoryInWhichUsersCouldDeceiveIsRefused(t *testing.T) {
	squatted := commonDir(t, 0o777|os.ModeSticky)
	must.NoError(t, os.Mkdir(squatted+"/nobody", 0o777), os.Chown(squatted+"/nobody", 1234, 1234))
	full := commonDir(t, 0o777|os.ModeSticky)
	must.NoError(t, os.WriteFile(full+"/nobody", nil, 0o600))
	stranger := commonDir(t, 0o755)
	must.NoError(t, os.Chown(stranger, 1234, 1234))
	file := filepath.Join(commonDir(t, 0o755), "file")
	must.NoError(t, os.WriteFile(file, nil, 0o644))
	for dir, want := range map[string]string{
		commonDir(t, 0o777): "mode 0777 lets others write to it: it has to be root's with mode 0755 or 1777",
		commonDir(t, 0o700): "permission denied",
		stranger:            "owned by uid 1234",
		squatted:            "it belongs to uid 1234",
		full:                "not a directory",
		file:                "not a directory",
		file + "/missing":   "not a directory",
		"/nonexistent/x":    "no such file or directory",
	} {
		err := writeFiles(t.Context(), dir, reportOf("1.s", 0))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

func TestFolderOfAUserIsAName(t *testing.T) {
	for user, want := range map[string]string{
		"alice": "alice", "": "7", "..": "7", "a/b": "7", ".ssh": "7", "a.b": "a.b",
	} {
		must.Equal(t, user, want, folderOf(user, 7))
	}
}
