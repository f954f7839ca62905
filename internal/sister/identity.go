package sister

import (
	"fmt"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// LoadIdentity reads this host's certificate. A certificate for another host than node is an error:
// other hosts would take this one for that.
func LoadIdentity(s config.Sister, node string) (*api.Identity, error) {
	id, err := api.LoadIdentity(api.TLSFiles{CA: s.CA, Cert: s.Cert, Key: s.Key})
	if err != nil {
		return nil, fmt.Errorf("sister: %w", err)
	}
	if name := id.Name(); !pbs.SameHost(name, node) {
		return nil, fmt.Errorf("sister.cert: the certificate is for %s, this node is %s", name, node)
	}
	return id, nil
}
