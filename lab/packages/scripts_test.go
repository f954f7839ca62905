package packages

import (
	"os/exec"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// At a roll-out the package is installed while pbs_cgroups confines jobs, and on the way back it is
// removed then. The unit that pbs_cgroups has written is not the package's.
func TestScriptsLeaveTheUnitOfPbsCgroups(t *testing.T) {
	kernfstest.NeedRoot(t)
	for _, script := range []string{"postinstall 2", "preremove 0"} {
		out, err := exec.Command("unshare", "--mount", "sh", "-ec", `
			mount -t tmpfs none /etc
			mount -t tmpfs none /run
			mkdir -p /run/systemd/system /run/bin
			ln -s /bin/true /run/bin/systemctl
			echo Description=stock >/run/systemd/system/pbs_jobs.service
			PATH=/run/bin:$PATH sh ../../packaging/scripts/`+script+` >/dev/null
			cat /run/systemd/system/pbs_jobs.service`).CombinedOutput()
		must.NoError(t, err)
		must.Equal(t, "the unit after "+script, "Description=stock\n", string(out))
	}
}
