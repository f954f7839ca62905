package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/api"
)

// examineSisters finds what this host and others need to work together; nothing where that is not
// configured.
func (n *Node) examineSisters(d daemon, now time.Time) []Finding {
	const what = "other hosts"
	s := n.Settings.File.Sister
	if !s.Configured() {
		var findings []Finding
		if len(s.Heads) > 0 {
			findings = append(findings,
				degraded(what, "heads in [sister] has no effect without listen, ca, cert and key",
					"see docs/sisters.md"))
		}
		return append(findings, d.examineRefused()...)
	}
	findings := []Finding{n.examineCertificate(now)}
	switch {
	case s.Listen == "" && len(s.Heads) > 0:
		findings = append(findings, degraded(what, "heads in [sister] has no effect: listen is empty",
			`set listen = ":15020" in [sister]`))
	case s.Listen == "":
		findings = append(findings, ok(what, "called, but not listened to: listen in [sister] is empty, "+
			"so a sister that misses the end of a job cannot ask"))
	case len(s.Heads) == 0:
		findings = append(findings, ok(what, "listens on "+s.Listen+"; none may begin jobs here"))
	default:
		findings = append(findings,
			ok(what, "listens on "+s.Listen+"; may begin jobs here: "+strings.Join(s.Heads, ", ")))
	}
	return append(findings, d.examineRefused()...)
}

func (n *Node) examineCertificate(now time.Time) Finding {
	const what, renew = "certificate", "renew it; the daemon takes it over as it comes"
	file := n.Settings.File.Sister.Cert
	name, expires, err := n.Certificate()
	switch {
	case err != nil: // the daemon does not start with it
		return blocking(what, err.Error(), "see docs/sisters.md; 'hookhost cert' makes certificates for trial")
	case now.After(expires):
		return impossible(what, fmt.Sprintf("%s has expired at %s: no host believes it",
			file, expires.Format(time.DateTime)), renew)
	case now.Add(api.ExpiresSoon).After(expires):
		return degraded(what, fmt.Sprintf("%s expires at %s", file, expires.Format(time.DateTime)), renew)
	}
	return ok(what, fmt.Sprintf("for %s, until %s", name, expires.Format(time.DateOnly)))
}
