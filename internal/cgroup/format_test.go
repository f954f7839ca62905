package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func mustSet(t *testing.T, text string) kernfs.IDSet {
	t.Helper()
	set, err := kernfs.ParseIDSet(text)
	must.NoError(t, err)
	return set
}

func TestPageName(t *testing.T) {
	for size, want := range map[int64]string{
		64 << 10: "64KB", 2 << 20: "2MB", 512 << 20: "512MB", 1 << 30: "1GB", 16 << 30: "16GB",
	} {
		if got := pageName(size); got != want {
			t.Errorf("pages of %d bytes are %s, want %s", size, got, want)
		}
		if got, ok := parsePageName(want); got != size || !ok {
			t.Errorf("%s is %d bytes, want %d", want, got, size)
		}
	}
	for _, name := range []string{"", "MB", "2", "-2MB", "0KB", "2MiB"} {
		if _, ok := parsePageName(name); ok {
			t.Errorf("%q is a page size", name)
		}
	}
}

func TestParseIO(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []IOLimit
		ok   bool
	}{
		{"", nil, true},
		{"8:16 rbps=2097152 wbps=max riops=max wiops=120\n259:0 rbps=max wbps=1 riops=max wiops=max\n",
			[]IOLimit{{Major: 8, Minor: 16, ReadBytes: size(2 << 20), WriteOps: size(120)},
				{Major: 259, WriteBytes: size(1)}}, true},
		{"8:0 rbps=max wbps=max riops=max wiops=max\n", nil, true},
		{"8:0 rbps=7 later=3\n", []IOLimit{{Major: 8, ReadBytes: size(7)}}, true},
		{"8:0 rbps=x\n", nil, false},
		{"sda rbps=1\n", nil, false},
		{"\n", nil, false},
	} {
		got, err := parseIO(tt.text)
		if (err == nil) != tt.ok || !cmp.Equal(got, tt.want) {
			t.Errorf("%q is %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
}

func FuzzParseIO(f *testing.F) {
	f.Add("8:16 rbps=2097152 wbps=max riops=max wiops=120\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseIO(text)
		if err != nil {
			return
		}
		for _, l := range list {
			if again, err := parseIOLine(l.String()); err != nil || !cmp.Equal(again, l) {
				t.Errorf("%v is read as %v, %v", l, again, err)
			}
		}
	})
}

func TestParsePressure(t *testing.T) {
	for _, tt := range []struct {
		text string
		want map[string]uint64
	}{
		{"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
			map[string]uint64{"some": 12, "full": 3}},
		// cpu.pressure before Linux 5.13
		{"some avg10=1.30 avg60=4.68 avg300=5.47 total=1726412078\n", map[string]uint64{"some": 1726412078}},
		{"", map[string]uint64{}},
		{"some avg10=0.00\n", nil},
		{"some total=-1\n", nil},
	} {
		got, err := parsePressure(tt.text)
		if (err == nil) != (tt.want != nil) || !cmp.Equal(got, tt.want) {
			t.Errorf("%q is %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
}
