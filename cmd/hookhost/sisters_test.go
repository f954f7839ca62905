package main

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/sister"
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

// The other hosts would take this one for somebody else.
func TestCertificateOfAnotherHostIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := makeCertificates(&strings.Builder{}, dir, []string{"n1", "n2"}, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"n2": "", "n1": "sister.cert: the certificate is for n2, this node is n1"} {
		_, err := sister.LoadIdentity(config.Sister{CA: dir + "/ca.crt", Cert: dir + "/n2.crt", Key: dir + "/n2.key"}, node)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("on %s: %v, want %q", node, err, want)
		}
	}
}
