package doctor

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hookhost/hookhost/internal/must"
)

func TestServicesOutsideOfJobsAreReported(t *testing.T) {
	const crontab, at = "usr/bin/crontab ", "usr/bin/at "
	for _, tt := range []struct {
		name, files string
		linger      bool
		want        string
	}{
		{"none is installed", "", false, ""},
		{"polkit allows it", "", true, "systemd of users"},
		{"cron for everybody", crontab, false, "cron"},
		{"cron with exceptions", crontab + "etc/cron.deny", false, "cron"},
		{"cron for some", crontab + "etc/cron.deny etc/cron.allow", false, ""},
		{"at for root, as its manual says", at, false, ""},
		{"at with exceptions", at + "etc/at.deny", false, "at"},
		{"at for some", at + "etc/at.deny etc/at.allow", false, ""},
		{"all", crontab + at + "etc/at.deny", true, "systemd of users, cron, at"},
	} {
		root := fstest.MapFS{}
		for _, name := range strings.Fields(tt.files) {
			root[name] = &fstest.MapFile{}
		}
		var found []string
		for _, f := range examineServices(root, tt.linger) {
			found = append(found, f.What)
		}
		must.Equal(t, tt.name, tt.want, strings.Join(found, ", "))
	}
}
