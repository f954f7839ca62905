package daemon

import (
	"errors"
	"io/fs"
	"os"

	pbshook "github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// customResources returns the server's custom resources. The server has sent them to the pbs_mom
// that runs the process caller as its hook. The file is beside the working directory of the hooks.
// If it is absent, the server has none, or has not sent them.
func (m *pbsMoM) customResources(caller int) openpbs.Custom {
	dir := pbshook.MoMHooks(pbs.HooksOfHook(m.procfs, caller))
	if dir == "" {
		home := m.conf.momHome()
		if home == "" {
			return openpbs.Custom{}
		}
		dir = pbshook.HooksOf(home)
	}
	text, err := os.ReadFile(dir.Resources())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Errorf("the server's custom resources: %v", err)
	}
	return openpbs.ParseResourcedef(text)
}
