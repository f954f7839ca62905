package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/sister"
)

// expiresSoon is when a certificate that expires is worth a word.
const expiresSoon = 14 * 24 * time.Hour

// examineSisters looks at what this host and others need to work together. Where nothing of it is configured there is nothing to say.
func (c *cli) examineSisters(cfg *config.File, d nodeDaemon, now time.Time) []finding {
	const what = "certificate"
	var findings []finding
	s := cfg.Sister
	if !s.Configured() {
		if len(s.Heads) > 0 {
			findings = append(findings, degraded("other hosts", "heads in [sister] has no effect without listen, ca, cert and key", "see docs/sisters.md"))
		}
		return append(findings, examineRefused(d)...)
	}
	node, err := nodeName(cfg)
	if err != nil {
		return append(findings, degraded(what, err.Error(), ""))
	}
	id, err := sister.LoadIdentity(s, node)
	switch {
	case err != nil: // the daemon does not start with it
		findings = append(findings, blocking(what, err.Error(), "see docs/sisters.md; 'hookhost cert' makes certificates for trial"))
	case now.After(id.Expires()):
		findings = append(findings, impossible(what, fmt.Sprintf("%s has expired at %s: no host believes it", s.Cert, id.Expires().Format(time.DateTime)), "renew it; the daemon takes it over as it comes"))
	case now.Add(expiresSoon).After(id.Expires()):
		findings = append(findings, degraded(what, fmt.Sprintf("%s expires at %s", s.Cert, id.Expires().Format(time.DateTime)), "renew it; the daemon takes it over as it comes"))
	default:
		findings = append(findings, ok(what, fmt.Sprintf("for %s, until %s", id.Name(), id.Expires().Format(time.DateOnly))))
	}
	switch {
	case s.Listen == "" && len(s.Heads) > 0:
		findings = append(findings, degraded("other hosts", "heads in [sister] has no effect: listen is empty", `set listen = ":15020" in [sister]`))
	case s.Listen == "":
		findings = append(findings, ok("other hosts", "called, but not listened to: listen in [sister] is empty, "+
			"so a sister that misses the end of a job cannot ask"))
	case len(s.Heads) == 0:
		findings = append(findings, ok("other hosts", "listens on "+s.Listen+"; none may begin jobs here"))
	default:
		findings = append(findings, ok("other hosts", "listens on "+s.Listen+"; may begin jobs here: "+strings.Join(s.Heads, ", ")))
	}
	return append(findings, examineRefused(d)...)
}

// examineRefused tells how often the daemon has refused somebody.
func examineRefused(d nodeDaemon) []finding {
	var kinds []string
	for kind, n := range d.info.Refused {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	if len(kinds) == 0 {
		return nil
	}
	slices.Sort(kinds)
	return []finding{ok("refused", "since the daemon started: "+strings.Join(kinds, ", ")+"; its log tells who")}
}
