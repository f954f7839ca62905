package daemon

import (
	"fmt"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/metrics"
	"github.com/hookhost/hookhost/internal/must"
)

// The sets of names that exist may be configured.
func TestEachSetOfNamesMayBeConfigured(t *testing.T) {
	must.Equal(t, "the sets", []string{"ceems", "jobstats", "pbs"}, metrics.Sets())
	for _, name := range metrics.Sets() {
		_, err := config.Parse(fmt.Appendf(nil, "[metrics]\nnames = [%q]", name), config.Here{})
		must.NoError(t, err)
	}
}
