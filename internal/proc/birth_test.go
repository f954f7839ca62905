package proc

import "testing"

func TestBornInCpuset(t *testing.T) {
	for release, want := range map[string]bool{
		"6.12.30-amd64": true, "6.3.0": true, "7.0.1": true, "6.18.44-fc-v669": true,
		"6.1.0-50-cloud-amd64": false, "6.1.192": true, "6.1.192-2 (2026-01-01)": true,
		"5.10.250-1 (2026-01-01)": false, "6.1.24": false, "6.2.16": false, "5.15.0-91-generic": false,
		"5.14.0-427.el9.x86_64": false, "5.10.0-32-cloud-amd64": false, "4.18.0": false, "": false, "6.3-rc1": true,
	} {
		if got := bornInCpuset(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
