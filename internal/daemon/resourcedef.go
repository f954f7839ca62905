package daemon

import (
	"errors"
	"io/fs"
	"os"

	pbshook "github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// customResources returns the custom resources that the server knows, as it has told the pbs_mom
// that runs the process caller as its hook. The file is beside the working directory of the hooks.
// An absent file says that the server knows none, or has not told.
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
