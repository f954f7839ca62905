package hostapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// size takes text, as a config's own types do.
type size int

func (s *size) UnmarshalText(b []byte) error { *s = size(len(b)); return nil }

type shared struct {
	Depth int `toml:"depth" json:"depth"`
}

type sample struct {
	shared
	Shared shared

	Most    int               `toml:"most" json:"most"`
	Ratio   float64           `toml:"ratio" json:"ratio"`
	Names   []string          `toml:"names" json:"names"`
	Table   map[string]shared `toml:"table" json:"table"`
	Size    size              `toml:"size" json:"size"`
	Wait    time.Duration     `toml:"wait" json:"wait"`
	Pointer *bool             `toml:"pointer" json:"pointer"`
	Free    any               `toml:"free" json:"free"`
	Bytes   []byte            `toml:"-" json:"bytes"`
	Small   uint8             `toml:"small" json:"small"`
	Hidden  int               `toml:"-" json:"-"`
}

func TestDecodeIsStrictAndKeepsDefaults(t *testing.T) {
	yes := true
	tests := []struct {
		name, config string
		want         sample
	}{
		{"empty", "", sample{Most: 4}},
		{"space", " \n\t", sample{Most: 4}},
		{"comment", "# most = 5\n", sample{Most: 4}},
		{"toml", "most = 5\nnames = ['a', 'b']\nsize = '10kb'\n[table.x]\ndepth = 2\n", sample{
			Most: 5, Names: []string{"a", "b"}, Size: 4, Table: map[string]shared{"x": {Depth: 2}},
		}},
		{"json", "\n {\"MOST\": 5, \"names\": [\"a\"], \"size\": \"10kb\", \"table\": {\"x\": {\"depth\": 2}}, " +
			"\"pointer\": true, " +
			`"wait": 5, "Shared": {"depth": 1}, "bytes": "YQ==", "ratio": 1, "small": 255}`, sample{
			Most: 5, Names: []string{"a"}, Size: 4, Table: map[string]shared{"x": {Depth: 2}}, Pointer: &yes, Wait: 5,
			Shared: shared{Depth: 1}, Bytes: []byte("a"), Ratio: 1, Small: 255,
		}},
		{"json null", `{"most": null, "free": {"a": [1, {"b": 2}]}}`, sample{
			Most: 4, Free: map[string]any{"a": []any{1.0, map[string]any{"b": 2.0}}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := sample{Most: 4}
			must.NoError(t, (&hostapi.Setup{Name: "h", Config: []byte(tt.config)}).Decode(&got))
			must.Equal(t, "", tt.want, got, cmp.AllowUnexported(sample{}))
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{"toml key", "most = 1\n\nmoist = 2", "line 3: moist: unknown key"},
		{"toml table", "[table.x]\ndepth = 1\n  width = 2", "line 3: table.x.width: unknown key"},
		{"toml type", "names = ['a']\nmost = 'x'", "line 2: "},
		{"toml syntax", "most = 1\nmost 2", "line 2: "},
		{"json key", "{\n\"most\": 1,\n\"moist\": {\"a\": \"}\"}}", `json: unknown field "moist"`},
		{"json table", "{\"table\": {\"x\": {\n\"width\": 2}}}", `json: unknown field "width"`},
		{"json hidden", `{"Hidden": 2}`, `json: unknown field "Hidden"`},
		{"json type", "{\n\n\"most\": \"x\"}", "line 3: most: want number, got string"},
		{"json list", "{\n\"names\":\n[\"a\", 1]}", "line 3: names: want string, got number"},
		{"json range", `{"small": 256}`, "line 1: small: want whole number of 8 bits, got 256"},
		{"json bytes", `{"bytes": 1}`, "line 1: bytes: want string, got number"},
		{"json syntax", "{\n\"most\": }", "line 2: invalid character '}'"},
		{"json end", "{\n\"most\": 1", "line 2: unexpected end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := (&hostapi.Setup{Name: "h", Config: []byte(tt.config)}).Decode(new(sample))
			if hostapi.KindOf(err) != hostapi.KindNode ||
				!strings.HasPrefix(err.Error(), "configuration of hook h: "+tt.want) {
				t.Errorf("got  %v\nwant %s...", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line: %q", err)
			}
		})
	}
}

func FuzzDecodeConfig(f *testing.F) {
	for _, seed := range []string{"", "most = 1", `{"most": 1}`, `{"table":{"x":{"depth":1}},"names":["\u0041"]}`,
		"[a]\nb = 1", `{"free":[{}]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, config string) {
		var got sample
		if err := (&hostapi.Setup{Config: []byte(config)}).Decode(&got); err != nil &&
			hostapi.KindOf(err) != hostapi.KindNode {
			t.Fatalf("%v of kind %s", err, hostapi.KindOf(err))
		}
		if strings.HasPrefix(strings.TrimSpace(config), "{") && !json.Valid([]byte(config)) {
			if err := (&hostapi.Setup{Config: []byte(config)}).Decode(&got); err == nil {
				t.Fatal("took what is not JSON")
			}
		}
	})
}
