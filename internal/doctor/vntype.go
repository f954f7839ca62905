package doctor

import (
	"slices"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/settings"
)

// examineVntype reports the vntype if one is known or a condition depends on it.
func (n *Node) examineVntype() []Finding {
	const what = "vntype"
	asked := slices.ContainsFunc(n.Settings.File.Conditions(), config.Condition.OnVntype)
	v, err := settings.ReadVntype(&n.Settings.File.OpenPBS)
	switch {
	case err != nil:
		return []Finding{degraded(what, err.Error(), "")}
	case v.Name != "":
		return []Finding{ok(what, v.String())}
	case asked:
		return []Finding{degraded(what,
			v.String()+"; the configuration's conditions on vntype read "+config.UnknownVntype, v.Advice())}
	}
	return nil
}
