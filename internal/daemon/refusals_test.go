package daemon

import (
	"testing"
	"time"
)

func TestFloodOfRefusalsIsLoggedUpToItsBound(t *testing.T) {
	r := newRefusals(nil)
	now := time.Now()
	said := 0
	for range 1000 {
		if say, _ := r.add("tm_owner", now); say {
			said++
		}
	}
	say, unsaid := r.add("denied", now.Add(time.Minute))
	if said != refusedLines || !say || unsaid != 1000-refusedLines {
		t.Errorf("%d lines, then %t with %d left out", said, say, unsaid)
	}
	if c := r.counts(); c["tm_owner"] != 1000 || c["denied"] != 1 {
		t.Errorf("counted %v", c)
	}
}
