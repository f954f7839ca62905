package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestCDINameIsTheJobsAlone(t *testing.T) {
	seen := map[string]string{}
	for id, want := range map[string]string{
		"12": "12", "12.server": "12.server", "12[3].server.example.org": "12:3.server.example.org", "12[3]": "12:3",
		"12[].server": "12:.server",
		"12[]":        "12::e", "12.server-": "12.server-:e", "12.server-1": "12.server-1", "12.a_b": "12.a_b",
	} {
		got := cdiName(id)
		if got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		if err := parser.ValidateDeviceName(got); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if !parser.IsQualifiedName(cdiDevice(id)) {
			t.Errorf("%s: %s is no name of a CDI device", id, cdiDevice(id))
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have one name, %s", id, other, got)
		}
		seen[got] = id
	}
}

// The job holds a GPU, a MIG instance and another device.
func TestCDIFileHoldsWhatTheJobWasGranted(t *testing.T) {
	g := &inventory.Grant{Devices: []topology.Device{migInstance(), a100(1),
		{ID: "/dev/fpga0", Resource: "fpga", Env: map[string]string{"FPGA": "/dev/fpga0"},
			Nodes: []topology.DeviceNode{{Path: "/dev/fpga0", Block: true, Major: 240, Minor: 1}}}},
		Shared: nvidiaShared}
	c := newCDIDir(filepath.Join(t.TempDir(), "not", "there"), defaultCgroupPrefix)
	const id = "12[3].srv"
	for range 2 {
		must.NoError(t, c.write(id, g, nil))
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "hookhost-12:3.srv.json" {
		t.Fatalf("files %v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode() != 0o644 { // rootless runtimes must be able to read it
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := os.ReadFile(c.file(id))
	must.NoError(t, err)
	const golden = "testdata/job.cdi.json"
	if *update {
		must.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	must.NoError(t, err)
	must.Equal(t, "", string(want), string(got))
	wantSchema(t, got)

	if err := c.write(id, &inventory.Grant{}, nil); err != nil { // resized so that no device is left
		t.Fatal(err)
	}
	if _, err := os.Stat(c.file(id)); !os.IsNotExist(err) {
		t.Errorf("without devices: %v", err)
	}
	if err := c.remove(id); err != nil {
		t.Error(err)
	}
}

// wantSchema checks a file against CDI's schema.json and, like the runtimes, rejects unknown keys.
func wantSchema(t *testing.T, text []byte) {
	t.Helper()
	var spec struct {
		Version string `json:"cdiVersion"`
		Kind    string `json:"kind"`
		Devices []struct {
			Name  string `json:"name"`
			Edits struct {
				Env   []string `json:"env"`
				Nodes []struct {
					Path        string `json:"path"`
					Type        string `json:"type"`
					Major       uint32 `json:"major"`
					Minor       uint32 `json:"minor"`
					Permissions string `json:"permissions"`
				} `json:"deviceNodes"`
			} `json:"containerEdits"`
		} `json:"devices"`
		Edits struct{} `json:"containerEdits"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	must.NoError(t, d.Decode(&spec))
	if spec.Version != "0.5.0" || spec.Kind != "hookhost.org/job" || len(spec.Devices) != 1 {
		t.Errorf("version %s, kind %s, %d devices", spec.Version, spec.Kind, len(spec.Devices))
	}
	for _, v := range spec.Devices[0].Edits.Env {
		if !regexp.MustCompile(`^[A-Z_]+=`).MatchString(v) {
			t.Errorf("variable %q", v)
		}
	}
}

// Two instances of hookhost on one node, for example if one is being tried out, leave each other's
// files alone.
func TestCDISweepLeavesOtherHookhostsFilesAlone(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := newCDIDir(dir, defaultCgroupPrefix), newCDIDir(dir, "trial")
	g := &inventory.Grant{Devices: []topology.Device{a100(0)}}
	for _, c := range []cdiDir{ours, theirs} {
		for _, id := range []string{"1.srv", "2.srv"} {
			must.NoError(t, c.write(id, g, nil))
		}
	}
	files, err := ours.files()
	must.NoError(t, err)
	must.NoError(t, ours.sweep(files, map[string]bool{"2.srv": true, "3.srv": true}))
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	must.Equal(t, "", []string{"hookhost-2.srv.json", "hookhost-trial-1.srv.json", "hookhost-trial-2.srv.json"}, left)
	none := cdiDir{}
	if files, err := none.files(); len(files) > 0 || err != nil || none.write("1.srv", g, nil) != nil ||
		none.remove("1.srv") != nil {
		t.Errorf("without a directory: %v, %v", files, err)
	}
}

// A job without a file there ends although the site's directory cannot be written to.
func TestCDIDirectoryOnAReadOnlyMount(t *testing.T) {
	kernfstest.NeedRoot(t)
	dir := t.TempDir()
	must.NoError(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	must.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	must.NoError(t, cdiDir{dir: dir}.remove("1.srv"))
}
