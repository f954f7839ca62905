package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// sysWith returns a /sys with these files.
func sysWith(t *testing.T, files string) *kernfs.FS {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(files)).Files {
		name := filepath.Join(dir, f.Name)
		must.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.NoError(t, os.WriteFile(name, f.Data, 0o644))
	}
	sys, err := kernfs.Open(dir)
	must.NoError(t, err)
	return sys
}

func TestResolveIO(t *testing.T) {
	sys := sysWith(t, "-- dev/block/8:0/size --\n1\n-- dev/block/8:1/partition --\n1\n")
	notBlock := filepath.Join(t.TempDir(), "file")
	must.NoError(t, os.WriteFile(notBlock, nil, 0o600))
	for _, tt := range []struct {
		off  bool
		max  []string
		want []cgroup.IOLimit
		text string
	}{
		{max: []string{"8:0 rbps=1mb riops=5", "9:3 wbps=2mb wiops=6"}, want: []cgroup.IOLimit{
			{Major: 8, ReadBytes: ptr(mib), ReadOps: ptr(int64(5))},
			{Major: 9, Minor: 3, WriteBytes: ptr(2 * mib), WriteOps: ptr(int64(6))}}},
		{off: true, max: []string{"banana"}},
		{max: []string{"banana"}, text: `io.max: "banana"`},
		{max: []string{"8:1 rbps=1mb"}, text: `io.max "8:1 rbps=1mb": 8:1 is a partition; io.max takes whole disks`},
		{max: []string{"8:0 rbps=1mb", "8:0 wbps=1mb"}, text: `io.max "8:0 wbps=1mb": 8:0 has a limit already`},
		{max: []string{"/dev/no-such-disk rbps=1mb"},
			text: `io.max "/dev/no-such-disk rbps=1mb": stat /dev/no-such-disk: no such file`},
		{max: []string{notBlock + " rbps=1mb"}, text: notBlock + " is no block device"},
	} {
		p := testPolicy(t, func(f *config.File) { f.IO.Enabled, f.IO.Max = !tt.off, tt.max })
		err := p.resolveIO(sys)
		if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("%q: error %v, want %q", tt.max, err, tt.text)
		}
		if err != nil {
			continue
		}
		must.Equal(t, fmt.Sprintf("%q", tt.max), tt.want, p.io)
		l, _, err := p.decide(fourCPUs(0), ask{HostShare: pbs.HostShare{NCPUs: 1}}, nil)
		if diff := cmp.Diff(tt.want, l.IO); diff != "" || err != nil {
			t.Errorf("%q: %v, a job's limits: -want +got:\n%s", tt.max, err, diff)
		}
	}
}
