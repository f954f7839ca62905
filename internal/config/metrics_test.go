package config

import (
	"strings"
	"testing"
)

func TestMetricsAddressIsOfThisMachineUnlessItNamesAHost(t *testing.T) {
	for listen, want := range map[string]string{
		"": "", ":15021": "127.0.0.1:15021", "0.0.0.0:15021": "0.0.0.0:15021", "[::1]:1": "[::1]:1",
	} {
		f, err := Parse([]byte("[metrics]\nlisten = '"+listen+"'"), Here{})
		if err != nil {
			t.Errorf("%q: %v", listen, err)
			continue
		}
		if got := f.Metrics.Address(); got != want {
			t.Errorf("%q: %q, want %q", listen, got, want)
		}
	}
	for _, listen := range []string{"n1", "n1:15021", "localhost:15021", ":0", ":65536", "127.0.0.1"} {
		_, err := Parse([]byte("[metrics]\nlisten = '"+listen+"'"), Here{})
		if err == nil || !strings.Contains(err.Error(), "metrics.listen") {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

func TestNamesOfMetricsAreOfKnownPrograms(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "", `["pbs", "jobstats", "ceems"]`: "",
		`["slurm"]`: `metrics.names: "slurm": want pbs, jobstats or ceems`, `["pbs", "pbs"]`: `"pbs" twice`,
	} {
		_, err := Parse([]byte("[metrics]\nnames = "+text), Here{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
