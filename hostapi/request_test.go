package hostapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestCheckJobID(t *testing.T) {
	good := []string{"0", "12", "12.server", "12.server.example.org", "12[3].server", "12[].server", "12[3]",
		"12.a_b-c", "1." + strings.Repeat("a", 218)}
	bad := []string{
		"", ".", "..", "12.", "12..", "12./", "12.a/b", "/12", "a.server", "12[.server", "12[-1].s", "12[a].s",
		"12]3[.s", "12 ",
		" 12", "12\n", "12.s\n", "12.s\x00", "12.-s", "12._s", "12.ü", "1." + strings.Repeat("a", 219),
		strings.Repeat("1", 221), "-1.s", "12[1][2].s",
	}
	for _, id := range good {
		if err := hostapi.CheckJobID(id); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, id := range bad {
		if err := hostapi.CheckJobID(id); err == nil {
			t.Errorf("%q passed", id)
		} else if len(err.Error()) > 200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

func FuzzCheckJobID(f *testing.F) {
	for _, id := range []string{"12.server", "12[3]", "../1", "1.a..b", "1.s/../x"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if hostapi.CheckJobID(id) != nil {
			return
		}
		// A path component, as it stands, that fits a file's name with some bytes to spare.
		if filepath.Base(id) != id || filepath.Clean("/x/"+id) != "/x/"+id || len(id) > 220 ||
			strings.ContainsAny(id, "\x00\n %") {
			t.Errorf("%q passed", id)
		}
	})
}

func TestResourcesOfAnyJSONTypeBecomeText(t *testing.T) {
	var got hostapi.Resources
	must.NoError(t, json.Unmarshal([]byte(`{"s":"64mb","i":3,"f":1.50,"e":1e3,"t":true,"n":null,"u":"\u0041"}`), &got))
	want := hostapi.Resources{"s": "64mb", "i": "3", "f": "1.50", "e": "1e3", "t": "True", "u": "A"}
	must.Equal(t, "", want, got)
	if err := json.Unmarshal([]byte("null"), &got); err != nil || got != nil {
		t.Errorf("null: %v, %v", got, err)
	}
	for _, bad := range []string{`{"a":[]}`, `{"a":{}}`, `[]`, `"a"`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s passed", bad)
		}
	}
}

func TestKindOf(t *testing.T) {
	node := hostapi.Errorf(hostapi.KindNode, "limit job %s: %w", "1.s", errors.ErrUnsupported)
	tests := []struct {
		name string
		err  error
		want hostapi.Kind
	}{
		{"nil", nil, ""},
		{"plain", errors.New("x"), hostapi.KindInternal},
		{"kind", node, hostapi.KindNode},
		{"wrapped", fmt.Errorf("begin: %w", node), hostapi.KindNode},
		{"joined", errors.Join(errors.New("x"), node), hostapi.KindNode},
		{"first of two", errors.Join(hostapi.Errorf(hostapi.KindJob, "y"), node), hostapi.KindJob},
		{"no kind", &hostapi.Error{Err: errors.New("x")}, hostapi.KindInternal},
		{"no known kind", hostapi.Errorf("odd", "x"), hostapi.KindInternal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hostapi.KindOf(tt.err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if !errors.Is(node, errors.ErrUnsupported) || node.Error() != "limit job 1.s: unsupported operation" {
		t.Errorf("%v", node)
	}
	if got := (&hostapi.Error{Kind: hostapi.KindBusy}).Error(); got != "busy error" {
		t.Errorf("without a cause: %q", got)
	}
}
