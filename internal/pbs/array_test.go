package pbs

import (
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestSubjobsAndTheirArrays(t *testing.T) {
	for id, want := range map[string]bool{"12[]": true, "12[].srv": true, "12": false, "12[3].srv": false, "[]": false,
		"x[].srv": false, "12.srv[]": false} {
		must.Equal(t, id, want, IsArray(id))
	}
	for _, tt := range []struct {
		array, id string
		want      bool
	}{
		{"12[]", "12[3].srv", true}, {"12[].srv", "12[3].srv", true}, {"12[].srv.example", "12[3].srv.example", true},
		{"12[].srv", "12[3].srv.example", true}, {"12[]", "12[0]", true}, {"12[]", "12[].srv", false},
		{"12[]", "112[3].srv", false}, {"12[].s", "12[3].srv", false}, {"12[]", "12.srv", false},
		{"12[]", "12[-1].srv", false}, {"12[]", "12[x].srv", false}, {"", "12[3]", false}, {"12[]", "12[3", false},
	} {
		must.Equal(t, tt.array+" "+tt.id, tt.want, InArray(tt.array, tt.id))
	}
	array, index, is := Subjob("12[17].srv")
	must.Equal(t, "array and index", [2]any{"12[].srv", 17}, [2]any{array, index})
	must.Equal(t, "is a subjob", true, is)
}
