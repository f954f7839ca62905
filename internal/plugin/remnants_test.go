package plugin

import (
	"strings"
	"testing"
)

// A user has no number of programs that do not die: each costs the host a thread.
func TestProgramsThatDoNotDieAreFew(t *testing.T) {
	p := launchNobodys(t, "misbehave")
	for range maxRemnants {
		p.launcher.behind.add(nobodysUID, 1)
	}
	const want = "16 programs of uid 65534 were killed and do not die"
	if _, err := p.call(t.Context(), nobodysPrologue); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	p.launcher.behind.add(nobodysUID, -1)
	if _, err := p.call(t.Context(), nobodysPrologue); err != nil {
		t.Errorf("one has died: %v", err)
	}
}
