package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/hookhost/hookhost/internal/config"
)

// examineContainers reports whether jobs can run in images on this node. With [container] disabled
// there is no finding.
func examineContainers(cfg *config.File) []Finding {
	const what = "container engine"
	c := cfg.Container
	if !c.Enabled {
		return nil
	}
	program, err := c.EngineProgram()
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(program); err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
			err = fmt.Errorf("%s is not a program", program)
		}
	}
	if err != nil {
		return []Finding{blocking(what, c.Engine+": "+err.Error()+": no job with -l container can begin",
			"install it, set program in [container], or set enabled = false there")}
	}
	findings := []Finding{ok(what, program)}
	most, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if err == nil && strings.TrimSpace(string(most)) == "0" {
		findings = append(findings, degraded("user namespaces", "there are none, and "+c.Engine+
			" needs them unless it has a set-user-id program", "sysctl user.max_user_namespaces=65536"))
	}
	switch c.Engine {
	case config.Apptainer, config.Enroot:
		if cfg.Devices.Enabled && !cfg.Devices.Fuse {
			findings = append(findings, degraded("/dev/fuse", "jobs may not open it, and "+c.Engine+
				" mounts image files with it unless it has a set-user-id program", "set fuse = true in [devices]"))
		}
	case config.Podman:
		if info, err := os.Stat("/etc/subuid"); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
			findings = append(findings, degraded("/etc/subuid", "it has no ranges, and podman needs one for each user",
				"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"))
		}
	}
	return findings
}
