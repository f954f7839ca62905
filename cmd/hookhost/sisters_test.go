package main

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

// A flood of refusals is counted in full and logged up to its bound, and the next line tells how many were not.
func TestRefusals(t *testing.T) {
	var r refusals
	now := time.Now()
	said := 0
	for range 1000 {
		if say, _ := r.add("certificate", now); say {
			said++
		}
	}
	if say, unsaid := r.add("denied", now.Add(time.Minute)); said != refusedLines || !say || unsaid != 1000-refusedLines {
		t.Errorf("%d lines, then %t with %d left out", said, say, unsaid)
	}
	if c := r.counts(); c["certificate"] != 1000 || c["denied"] != 1 {
		t.Errorf("counted %v", c)
	}
}

func TestExamineSisters(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	if err := makeCertificates(&strings.Builder{}, dir, []string{"n1", "n2"}, false, now); err != nil {
		t.Fatal(err)
	}
	c := &cli{}
	cfg := config.Default()
	cfg.Host.Node = "n1"
	look := func(d nodeDaemon, at time.Time) string {
		var lines []string
		for _, f := range c.examineSisters(cfg, d, at) {
			line := f.Status + " " + f.What + ": " + f.Found
			if f.Blocks {
				line = "blocking " + line
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	check := func(what, got string, want ...string) {
		t.Helper()
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: %q, want %q", what, got, text)
			}
		}
	}
	if got := look(nodeDaemon{}, now); got != "" {
		t.Errorf("nothing configured: %q", got)
	}
	cfg.Sister.Heads = []string{"n2"}
	check("heads alone", look(nodeDaemon{}, now), "degraded other hosts: heads in [sister] has no effect")
	cfg.Sister.CA, cfg.Sister.Cert, cfg.Sister.Key = dir+"/ca.crt", dir+"/n1.crt", dir+"/n1.key"
	check("not listening", look(nodeDaemon{}, now), "ok certificate: for n1, until", "degraded other hosts: heads in [sister] has no effect: listen is empty")
	cfg.Sister.Listen = ":15020"
	check("in order", look(nodeDaemon{info: api.NodeInfo{Refused: map[string]int64{"denied": 3, "certificate": 1}}}, now),
		"ok other hosts: listens on :15020; may begin jobs here: n2", "ok refused: since the daemon started: certificate 1, denied 3")
	check("soon", look(nodeDaemon{}, now.AddDate(1, 0, -3)), "degraded certificate: ", "expires at")
	check("expired", look(nodeDaemon{}, now.AddDate(1, 0, 1)), "impossible certificate: ", "has expired at")
	cfg.Sister.Cert, cfg.Sister.Key = dir+"/n2.crt", dir+"/n2.key"
	check("another's", look(nodeDaemon{}, now), "blocking impossible certificate: sister.cert: the certificate is for n2, this node is n1")
}
