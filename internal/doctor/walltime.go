package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

// examineWalltime reports which time limits are in force, and whether cpu time can be counted.
func (k *kernel) examineWalltime() []Finding {
	const what, cput = "walltime", "cput"
	w := k.cfg.Walltime
	if !w.Enabled {
		return []Finding{ok(what, "[walltime] is not enabled: no job is warned or ended for walltime or cput")}
	}
	findings := []Finding{ok(what, limitsOf(w))}
	if k.tree.Mode() == cgroup.ModeV1 && !k.tree.Has("cpuacct") { // a v2 cgroup counts without any controller
		return append(findings, impossible(cput,
			"no job is ended for its cpu time, because nothing counts it: there is no cpuacct controller",
			"mount the v1 controller cpuacct, with cpu; better, "+bootV2))
	}
	return append(findings, ok(cput, "enforced, by the cpu time that the kernel counts for the job"))
}

func limitsOf(w config.Walltime) string {
	asked := "a job has the walltime that it requests, or no limit"
	if w.Maximum > 0 {
		asked = fmt.Sprintf("a job has the walltime that it requests, at most %s", briefly(w.Maximum))
	}
	if w.Overtime > 0 {
		asked += fmt.Sprintf("; %s of overtime", briefly(w.Overtime))
	}
	warnings := "no warning unless it requests one"
	if len(w.Signals) > 0 {
		warnings = "warnings " + strings.Join(w.Signals, " ")
	}
	return fmt.Sprintf("%s; %s; SIGTERM at the end and SIGKILL %s later; under pbs_mom %s after MoM should have "+
		"ended it",
		asked, warnings, briefly(w.Grace), briefly(w.MoMMargin))
}

// briefly formats a duration without its zeros: 5m, not 5m0s.
func briefly(d config.Duration) string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
