package tm

import "testing"

func TestHostIsMeantByItsNameItsShortFormOrItsAddress(t *testing.T) {
	for _, tt := range []struct {
		host, name string
		want       bool
	}{
		{"n1", "n1.a", true}, {"n1.b", "n1.a", false}, {"n10", "n1", false}, {"n1", "", false},
		{"127.0.0.1", "localhost", true}, {"10.9.8.7", "localhost", false}, {"10.0.0.1", "10.0.0.1", true},
	} {
		if got := IsHost(tt.host, tt.name); got != tt.want {
			t.Errorf("%q of %q: %v", tt.host, tt.name, got)
		}
	}
}
