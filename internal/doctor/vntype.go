package doctor

import (
	"slices"

	"github.com/hookhost/hookhost/internal/config"
)

// Vntype is resources_available.vntype of this host's natural vnode.
type Vntype struct {
	Name   string // "" where none is known
	Text   string // for people: what it is and where it is from
	Advice string // how the node gets one
	Err    error  // why it could not be read
}

// examineVntype finds the vntype where one is known or a condition asks for it.
func (n *Node) examineVntype() []Finding {
	const what = "vntype"
	asked := slices.ContainsFunc(n.Config.Conditions(), config.Condition.OnVntype)
	switch v := n.Vntype; {
	case v.Err != nil:
		return []Finding{degraded(what, v.Err.Error(), "")}
	case v.Name != "":
		return []Finding{ok(what, v.Text)}
	case asked:
		return []Finding{degraded(what, v.Text+"; the configuration's conditions on vntype read "+config.UnknownVntype,
			v.Advice)}
	}
	return nil
}
