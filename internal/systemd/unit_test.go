package systemd

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// TestPackagedUnit: the unit file and the unit that is made where it is not installed are the same.
func TestPackagedUnit(t *testing.T) {
	b, err := os.ReadFile("../../packaging/pbs_jobs.service")
	must.NoError(t, err)
	packaged := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(line, "#") && key != "Documentation" {
			packaged[key] = value
		}
	}
	made := map[string]string{}
	for _, p := range properties(254) {
		text := strings.Trim(p.Value.String(), `"`)
		switch {
		case p.Name == "Before":
			text = strings.Join(p.Value.Value().([]string), " ")
		case p.Name == "ExecStart":
			text = "-/bin/sleep infinity"
		case p.Name == "TimeoutStopUSec":
			p.Name, text = "TimeoutStopSec", strings.TrimSuffix(strings.TrimPrefix(text, "@t "), "000000")+"s"
		case text == "true":
			text = "yes"
		case text == "@t 18446744073709551615":
			text = "infinity"
		}
		made[p.Name] = text
	}
	must.Equal(t, "-packaged +made", packaged, made)
	for version, without := range map[int]string{239: "Type OOMPolicy DelegateSubgroup", 247: "DelegateSubgroup",
		253: "DelegateSubgroup"} {
		for _, p := range properties(version) {
			if slices.Contains(strings.Fields(without), p.Name) {
				t.Errorf("systemd %d does not know %s", version, p.Name)
			}
		}
	}
}
