package doctor

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/hookhost/hookhost/internal/must"
)

// The files are those of Debian 12, shortened, and of RHEL 9 where a row has them.
func TestSuOutOfAJobIsReported(t *testing.T) {
	const inDebian = "auth sufficient pam_rootok.so\n# auth       required   pam_wheel.so\n@include common-auth\n" +
		"session required pam_limits.so\n@include common-session\n"
	debian := map[string]string{
		"su": inDebian, "su-l": "auth\t\tinclude\t\tsu\nsession\t\toptional\tpam_keyinit.so force revoke\n" +
			"session\t\tinclude\t\tsu\n",
		"common-session": "session\trequired\tpam_unix.so \nsession\toptional\tpam_systemd.so \n",
		"common-auth":    "auth [success=1 default=ignore] pam_unix.so nullok\n",
	}
	const wheel = "auth required pam_wheel.so"
	for _, tt := range []struct {
		name  string
		edit  map[string]string // of Debian's files
		mode  fs.FileMode       // of su
		seats bool              // systemd-logind runs
		want  bool
	}{
		{"Debian", nil, fs.ModeSetuid, true, true},
		{"without systemd-logind", nil, fs.ModeSetuid, false, false},
		{"root alone can use su", nil, 0, true, false},
		{"without pam_systemd", map[string]string{"common-session": "session required pam_unix.so\n"}, fs.ModeSetuid,
			true, false},
		{"pam_wheel", map[string]string{"su": wheel + "\n" + inDebian}, fs.ModeSetuid, true, false},
		{"pam_wheel with a group", map[string]string{"su": wheel + " use_uid group=staff\n" + inDebian}, fs.ModeSetuid,
			true, false},
		{"pam_wheel in place of a password", map[string]string{"su": "auth sufficient pam_wheel.so trust\n" +
			inDebian}, fs.ModeSetuid, true, true},
		{"pam_wheel excludes a group", map[string]string{"su": wheel + " deny group=nosu\n" + inDebian}, fs.ModeSetuid,
			true, true},
		{"pam_wheel for root's account", map[string]string{"su": wheel + " root_only\n" + inDebian}, fs.ModeSetuid,
			true, true},
		{"su - alone", map[string]string{"su": "session required pam_unix.so\n",
			"su-l": "session include common-session\n"}, fs.ModeSetuid, true, true},
		{"RHEL", map[string]string{"su": "auth substack system-auth\nsession include system-auth\n",
			"system-auth": "auth required pam_env.so\n-session optional pam_systemd.so\n"}, fs.ModeSetuid, true, true},
		{"a circle", map[string]string{"common-session": "@include su\n"}, fs.ModeSetuid, true, false},
	} {
		root := fstest.MapFS{"bin/su": {Mode: 0o755 | tt.mode}}
		if tt.seats {
			root["run/systemd/seats"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		}
		for _, files := range []map[string]string{debian, tt.edit} {
			for name, text := range files {
				root["etc/pam.d/"+name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		must.Equal(t, tt.name, tt.want, len(examineSu(root)) == 1)
	}
}
