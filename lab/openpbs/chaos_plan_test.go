//go:build openpbs

package openpbs_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// chaosPlan is what a run of chaos does: orders to PBS, and strikes at nodes beside them. A seed
// and a length make it, and nothing else. So a seed repeats a run as far as PBS's own haste allows.
type chaosPlan struct{ orders, strikes []chaosStep }

// chaosStep is done so long after the step before it.
type chaosStep struct {
	after time.Duration
	what  string
	node  int           // of nodes
	pick  int           // which job, script or program, of as many as there are then
	down  time.Duration // of what is struck
}

// chaosOrders are the orders, each as often as it stands here.
var chaosOrders = []string{
	"qsub", "qsub", "qsub", "qsub", "qsub", "qsub", "qdel", "qdel", "qdel force", "qrerun", "qrerun force",
	"suspend", "resume", "resume", "SIGTERM",
}

// chaosStrikes are the strikes in the same way. The first node has the server, and is spared the
// last two.
var chaosStrikes = []string{
	"daemon killed", "daemon killed", "daemon stopped", "daemon restarted", "MoM killed", "MoM killed", "MoM stopped",
	"hook killed", "hook killed", "hook stopped", "link down", "node lost",
}

const (
	chaosFirstJobs  = 6
	chaosOrderPause = 2 * time.Second // on average
	chaosPause      = 4 * time.Second
	chaosDown       = 3 * time.Second
	chaosLinkDown   = 20 * time.Second
)

// chaosServer is one strike more, where the server is struck as well.
const chaosServer = "server restarted"

func newChaosPlan(seed uint64, length time.Duration, server bool) (p chaosPlan) {
	strikes := chaosStrikes
	if server {
		strikes = append(slices.Clone(strikes), chaosServer)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for range chaosFirstJobs {
		p.orders = append(p.orders, chaosStep{what: "qsub", pick: random.IntN(1 << 16)})
	}
	for at := time.Duration(0); at < length; {
		s := chaosStep{after: upTo(2 * chaosOrderPause), what: chaosOrders[random.IntN(len(chaosOrders))],
			pick: random.IntN(1 << 16)}
		p.orders, at = append(p.orders, s), at+s.after
	}
	for at := time.Duration(0); at < length; {
		s := chaosStep{after: upTo(2 * chaosPause), what: strikes[random.IntN(len(strikes))],
			node: random.IntN(2), pick: random.IntN(1 << 16), down: upTo(chaosDown)}
		switch s.what {
		case "link down":
			s.node, s.down = 1, upTo(chaosLinkDown)
		case "node lost":
			s.node = 1
		case chaosServer:
			s.node = 0
		}
		p.strikes, at = append(p.strikes, s), at+s.after+s.down
	}
	return p
}

func TestASeedOfChaosMakesOnePlan(t *testing.T) {
	p := newChaosPlan(7, time.Minute, true)
	if !reflect.DeepEqual(p, newChaosPlan(7, time.Minute, true)) {
		t.Error("one seed makes two plans")
	}
	if reflect.DeepEqual(p, newChaosPlan(8, time.Minute, true)) {
		t.Error("two seeds make one plan")
	}
}
