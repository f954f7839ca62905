package main

import (
	"fmt"
	"time"
)

// examineConfiguration tells whether the configuration that PBS has sent is in force, and nothing
// where PBS has sent none.
func examineConfiguration(s settings) []finding {
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
