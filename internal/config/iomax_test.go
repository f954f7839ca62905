package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseIOMax(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for _, tt := range []struct {
		text string
		want IOMax
	}{
		{"/dev/nvme0n1 rbps=500mb wbps=200mb riops=20000 wiops=10000",
			IOMax{Path: "/dev/nvme0n1", ReadBytes: n(500 << 20), WriteBytes: n(200 << 20), ReadOps: n(20000),
				WriteOps: n(10000)}},
		{"259:0  wiops=1", IOMax{Major: 259, WriteOps: n(1)}},
		{"8:16 rbps=1048576", IOMax{Major: 8, Minor: 16, ReadBytes: n(1 << 20)}},
	} {
		got, err := ParseIOMax(tt.text)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v, -want +got:\n%s", tt.text, err, diff)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"", "want a device and its limits"},
		{"/dev/sda", "want a device and its limits"},
		{"sda rbps=1mb", `device "sda": want a path, or numbers such as 8:0`},
		{"8 rbps=1mb", `device "8"`},
		{"8:1048576 rbps=1mb", `device "8:1048576"`},
		{"8:0 rbps", `rbps: "" is not a number`},
		{"8:0 rbps=fast", `rbps: "fast" is not a number`},
		{"8:0 rbps=0", "rbps: 0 is out of range"},
		{"8:0 riops=1mb", `riops: "1mb" is not a number`},
		{"8:0 riops=4294967296", "riops: 4294967296 is out of range"},
		{"8:0 bps=1", "bps=1: want rbps, wbps, riops or wiops"},
		{"8:0 rbps=1 rbps=2", "rbps: given twice"},
	} {
		if _, err := ParseIOMax(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), tt.text) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}
	if _, err := Parse([]byte("[io]\nmax = [\"/dev/sda rbps=fast\"]"), Here{}); err == nil ||
		!strings.Contains(err.Error(), `io.max: "/dev/sda rbps=fast": rbps`) {
		t.Errorf("in a file: %v", err)
	}
}
