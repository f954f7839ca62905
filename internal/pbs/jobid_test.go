package pbs

import "testing"

func TestBeginningUpToADotNamesAJob(t *testing.T) {
	for _, tt := range []struct {
		given, id string
		want      bool
	}{
		{"12", "12.srv", true}, {"12.srv", "12.srv", true}, {"12.srv", "12.srv.example", true},
		{"12", "12.srv.example", true}, {"12[3]", "12[3].srv", true}, {"12", "12", true},
		{"1", "12.srv", false}, {"12.s", "12.srv", false}, {"12", "12[3].srv", false}, {"", "12.srv", false},
		{"12.srv", "12", false}, {"", ".srv", false}, {"srv", "12.srv", false},
	} {
		if got := NamesJob(tt.given, tt.id); got != tt.want {
			t.Errorf("%q names %q: %t", tt.given, tt.id, got)
		}
	}
}
