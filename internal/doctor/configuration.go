package doctor

import (
	"fmt"
	"time"
)

// FromPBS is what became of the configuration that PBS has sent to this node.
type FromPBS struct {
	File    string // that pbs_mom keeps it in
	Own     string // the node's own file, which goes over it
	InForce bool   // some of PBS's is
	// Refused is why what was sent last, at Changed, is not in force; nil where it is.
	Refused error
	Changed time.Time
}

// examine finds nothing where PBS has sent none.
func (c FromPBS) examine() []Finding {
	const what = "configuration of PBS"
	switch {
	case c.Refused != nil:
		return []Finding{degraded(what,
			fmt.Sprintf("%v: not in force, since %s; the one before is", c.Refused, c.Changed.Format(time.DateTime)),
			"mend it and 'hookhost openpbs config FILE' on the PBS server's host; "+
				"or install the hookhost here that knows it")}
	case c.InForce:
		return []Finding{ok(what, c.File+", below "+c.Own)}
	}
	return nil
}
