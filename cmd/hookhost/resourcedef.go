package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/openpbs"
)

// resourcedef is the file with the server's custom resources, in mom_priv/hooks of each pbs_mom.
const resourcedef = "resourcedef"

// customResources returns the custom resources that the server knows, as it has told the pbs_mom
// that runs the process caller as its hook. The file is beside the working directory of the hooks.
// An absent file says that the server knows none, or has not told.
func (b *backend) customResources(caller int) openpbs.Custom {
	link := strconv.Itoa(caller) + "/cwd"
	dir := b.procfs.Path(link) + "/.." // by the kernel, which knows it in a container, too
	if cwd, err := b.procfs.Readlink(link); err != nil || !strings.HasSuffix(cwd, workdir) {
		home := b.configuredHome()
		if home == "" {
			return openpbs.Custom{}
		}
		dir = momHooks(home)
	}
	text, err := os.ReadFile(dir + "/" + resourcedef)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Errorf("the server's custom resources: %v", err)
	}
	return openpbs.ParseResourcedef(text)
}

// examineResource looks for diag_messages among the custom resources that the server has told this
// node of. A resource that is there is no finding.
func examineResource(dir string) []finding {
	what, advice := "PBS resource "+openpbs.DiagMessages, "hookhost openpbs install, on the PBS server's host"
	text, err := os.ReadFile(filepath.Join(dir, resourcedef))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return []finding{degraded(what, err.Error(), "")}
	case openpbs.ParseResourcedef(text).Knows(openpbs.DiagMessages):
		return nil
	}
	return []finding{degraded(what, "the server does not know it: that a job was killed for lack of memory "+
		"is neither in qstat nor in accounting", advice)}
}
