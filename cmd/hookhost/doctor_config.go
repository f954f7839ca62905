package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/api"
)

// examineFromPBS tells whether the configuration that PBS has sent is in force, and nothing
// where PBS has sent none.
func examineFromPBS(s settings) []finding {
	const what = "configuration of PBS"
	switch {
	case s.refused != nil:
		return []finding{degraded(what, fmt.Sprintf("%v: not in force, since %s; the one before is", s.refused,
			time.Unix(0, s.pbs.id.changed).Format(time.DateTime)),
			"mend it and 'hookhost openpbs config FILE' on the PBS server's host; or install the hookhost here that knows it")}
	case s.sent != nil:
		return []finding{ok(what, s.pbs.id.path+", below "+s.own)}
	}
	return nil
}

// examineInForce tells what of the daemon's configuration is not in force.
func examineInForce(info *api.ConfigInfo) []finding {
	if info == nil { // a daemon of another version, or no daemon
		return nil
	}
	const what = "configuration"
	list := func(settings []api.Setting) string {
		var all []string
		for _, s := range settings {
			all = append(all, fmt.Sprintf("%s (%s in force, %s in the file)", s.Key, s.InForce, s.Waits))
		}
		return strings.Join(all, ", ")
	}
	switch {
	case info.Error != "":
		return []finding{degraded(what, "the daemon runs with what it read before: "+info.Error,
			"correct the file: the daemon does not start with it")}
	case len(info.Restart) > 0:
		found := "the daemon does not have what " + info.File + " says, and a reload is refused: " + list(info.Restart)
		if len(info.Reload) > 0 {
			found += "; nor " + list(info.Reload)
		}
		return []finding{degraded(what, found, "once no job runs: systemctl restart hookhost; or put the file back as it was")}
	case len(info.Reload) > 0:
		return []finding{degraded(what, "the daemon does not have what "+info.File+" says: "+list(info.Reload),
			"systemctl reload hookhost, or SIGHUP to the daemon")}
	}
	return []finding{ok(what, "the daemon has what "+info.File+" says")}
}
