package doctor

import (
	"errors"

	"github.com/hookhost/hookhost/internal/rapl"
)

// examineEnergy reports whether the energy of jobs can be counted, if that is configured.
func (k *kernel) examineEnergy() []Finding {
	if !k.cfg.Billing.Energy {
		return nil
	}
	const what = "energy"
	_, err := rapl.Open(k.roots.Sys)
	switch {
	case err == nil:
		return []Finding{ok(what, "each job gets its share of the energy of processors and memory")}
	case errors.Is(err, rapl.ErrNone):
		return []Finding{impossible(what, err.Error(), "modprobe intel_rapl_msr; or set energy = false in [billing]")}
	}
	return []Finding{impossible(what, err.Error(), "set energy = false in [billing]")}
}
