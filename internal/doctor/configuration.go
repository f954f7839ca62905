package doctor

import (
	"fmt"
	"os"
	"time"
)

// examineFromPBS reports whether the configuration that PBS has sent to this node is in force. It
// reports nothing if PBS has sent none.
func (n *Node) examineFromPBS() []Finding {
	s := n.Settings
	const what = "configuration of PBS"
	switch {
	case s.Refused != nil:
		changed := "an unknown time"
		if info, err := os.Stat(s.PBS.Path); err == nil {
			changed = info.ModTime().Format(time.DateTime)
		}
		return []Finding{degraded(what,
			fmt.Sprintf("%v: not in force, since %s; %s", s.Refused, changed, s.Instead()),
			"correct the file and run 'hookhost openpbs config FILE' on the PBS server's host; "+
				"or install a hookhost here that knows the key")}
	case s.InForce != nil:
		return []Finding{ok(what, s.PBS.Path)}
	case s.Own && s.PBS.Path != "":
		return []Finding{ok(what, s.PBS.Path+": not in force, since this node has its own, "+s.Path)}
	}
	return nil
}
