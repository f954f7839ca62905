package spelling

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestNearestNameIsTheOneThatWasMeant(t *testing.T) {
	known := strings.Fields("running finished ok failed killed oom mem_bytes mem_limit_bytes memory.default")
	for _, tt := range []struct{ word, want string }{
		{"faild", "failed"}, {"fialed", "failed"}, {"FAILED", "failed"}, {"fail", "failed"}, {"runing", "running"},
		{"mem_", "mem_bytes"}, {"mem_byte", "mem_bytes"}, {"memory.defautl", "memory.default"},
		{"ook", "ok"}, {"asleep", ""}, {"", ""}, {"x", ""}, {"f", ""}, {"kill", "killed"}, {"bytes", ""},
	} {
		must.Equal(t, tt.word, tt.want, Nearest(tt.word, known))
	}
	must.Equal(t, "near", `state "faild": unknown: did you mean failed?`, Unknown("state", "faild", known).Error())
	must.Equal(t, "none", `state "nap": not one of ok, oom`, Unknown("state", "nap", []string{"ok", "oom"}).Error())
}

func TestDistanceCountsChanges(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}} {
		must.Equal(t, tt.a+" "+tt.b, tt.want, distance(tt.a, tt.b))
		must.Equal(t, tt.b+" "+tt.a, tt.want, distance(tt.b, tt.a))
	}
}
