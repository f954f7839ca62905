package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// TestOddMachines: what the fixtures of whole machines do not show, as small trees.
func TestOddMachines(t *testing.T) {
	const (
		head  = "Made by hand for this test.\n-- proc/devices --\nCharacter devices:\n226 drm\n-- sys/bus/none --\n"
		kfd   = "-- sys/class/kfd/kfd/dev --\n511:0\n"
		node1 = "-- sys/class/kfd/kfd/topology/nodes/1/gpu_id --\n51000\n-- " +
			"sys/class/kfd/kfd/topology/nodes/1/properties --\nvendor_id 4098\ndevice_id 29857\nlocation_id " +
			"805347584\ndrm_render_minor 128\nunique_id 0\n"
		name1   = "-- sys/class/kfd/kfd/topology/nodes/1/name --\nip discovery\n"
		render  = "-- sys/class/drm/renderD128/dev --\n226:128\n"
		intelVF = "-- sys/class/drm/renderD128/device/uevent " +
			"--\nDRIVER=xe\nPCI_CLASS=38000\nPCI_ID=8086:0BD5\nPCI_SLOT_NAME=0000:3a:00.1\n"
		blackhole = "-- sys/bus/pci/devices/0000:01:00.0/uevent --\nPCI_ID=1E52:B140\nPCI_SLOT_NAME=0000:01:00.0\n"
	)
	for _, tt := range []struct {
		name, tree string
		devices    string // ID, model, index, first node
		source     string // the one that has something to say
		says       string
	}{
		{"AMD without product name and UUID, a partition", head + kfd + node1 + name1 + render,
			"0000:a1:00.0 ip discovery 1002:74a1 0 c 226:128", "", ""},
		{"a partition by an earlier driver", head + kfd + strings.Replace(node1, "805347584", "41219", 1) + render,
			"0000:a1:00.0 AMD 1002:74a1 0 c 226:128", "", ""},
		{"AMD without a render node", head + kfd + node1, "", "amd",
			"error node 1 (0000:a1:00.0): open /sys/class/drm/renderD128/dev: no such file or directory"},
		{"AMD without /dev/kfd", head + node1 + render, "", "amd",
			"error open /sys/class/kfd/kfd/dev: no such file or directory"},
		{"AMD with a damaged node", head + kfd + node1 + render + "-- sys/class/kfd/kfd/topology/nodes/2/gpu_id " +
			"--\nx\n", "0000:a1:00.0 AMD 1002:74a1 0 c 226:128", "amd",
			`error parse /sys/class/kfd/kfd/topology/nodes/2/gpu_id: "x"`},
		{"amdgpu without amdkfd", head + "-- sys/bus/pci/devices/0000:a1:00.0/uevent " +
			"--\nDRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:a1:00.0\n", "", "amd",
			"note 0000:a1:00.0 (1002:74a1) has the driver amdgpu, and amdkfd"},
		{"Intel that has no name here", head + render + strings.ReplaceAll(intelVF, "0BD5", "E20B"),
			"0000:3a:00.1 Intel 8086:e20b 0 c 226:128", "", ""},
		{"Intel's virtual function", head + render + intelVF + "-- sys/class/drm/renderD128/device/physfn/uevent --\n",
			"", "", ""},
		{"Intel with a damaged node", head + "-- sys/class/drm/renderD128/dev --\n226\n" + intelVF, "", "intel",
			`error 0000:3a:00.1: parse /sys/class/drm/renderD128/dev: "226"`},
		{"a Gaudi of the older driver", head + "-- sys/class/habanalabs/hl3/dev --\n508:6\n-- " +
			"sys/class/habanalabs/hl_controlD3/dev --\n508:7\n-- sys/class/habanalabs/hl3/device/uevent " +
			"--\nDRIVER=habanalabs\nPCI_ID=1DA3:1000\nPCI_SLOT_NAME=0000:19:00.0\n",
			"0000:19:00.0 Habana 1da3:1000 3 c 508:6", "", ""},
		{"a Gaudi without its control node", head + "-- sys/class/accel/accel0/dev --\n508:0\n-- " +
			"sys/class/accel/accel0/device/uevent --\nPCI_ID=1DA3:1020\nPCI_SLOT_NAME=0000:19:00.0\n", "", "habana",
			"error open /sys/class/accel/accel_controlD0/dev"},
		{"an accelerator of another vendor", head + "-- sys/class/accel/accel0/dev --\n261:0\n-- " +
			"sys/class/accel/accel0/device/uevent --\nDRIVER=intel_vpu\nPCI_ID=8086:7D1D\nPCI_SLOT_NAME=0000:00:0b.0\n",
			"", "", ""},
		{"a Tenstorrent whose firmware does not answer", head + blackhole + "-- sys/bus/pci/devices/0000:01:00.0/" +
			"tenstorrent/tenstorrent!7/dev --\n238:7\n", "0000:01:00.0 Tenstorrent Blackhole 1e52:b140 7 c 238:7",
			"", ""},
		{"a Tenstorrent card of a later driver", head + blackhole + "-- sys/bus/pci/devices/0000:01:00.0/tenstorrent/" +
			"tenstorrent!0/dev --\n238:0\n-- sys/bus/pci/devices/0000:01:00.0/tenstorrent/tenstorrent!0/tt_card_type " +
			"--\nunknown\n", "0000:01:00.0 Tenstorrent Blackhole 1e52:b140 0 c 238:0", "", ""},
		{"a Tenstorrent without a driver", head + blackhole, "", "tenstorrent",
			"note 0000:01:00.0 (1e52:b140) has no device node, which needs the driver tenstorrent"},
		{"a Tenstorrent with a damaged node", head + blackhole + "-- sys/bus/pci/devices/0000:01:00.0/tenstorrent/" +
			"tenstorrent!0/dev --\n238\n", "", "tenstorrent",
			`error 0000:01:00.0: parse /sys/bus/pci/devices/0000:01:00.0/tenstorrent/tenstorrent!0/dev: "238"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tree.txtar")
			must.NoError(t, os.WriteFile(path, []byte(tt.tree), 0o600))
			inv := Scan(t.Context(), kernfstest.FixtureRoots(t, path), Options{GPUs: true})
			checkInventory(t, inv)
			var devices []string
			for _, d := range inv.Devices {
				devices = append(devices,
					strings.Join([]string{d.ID, d.Model, string(rune('0' + d.Index)), d.Nodes[0].String()}, " "))
			}
			if got := strings.Join(devices, "; "); got != tt.devices {
				t.Errorf("devices %q, want %q", got, tt.devices)
			}
			for _, s := range inv.Sources {
				says := ""
				if s.Error != "" {
					says = "error " + s.Error
				} else if s.Note != "" {
					says = "note " + s.Note
				}
				if s.Name == tt.source && !strings.HasPrefix(says, tt.says) || s.Name != tt.source && says != "" {
					t.Errorf("%s says %q, want %s to say %q", s.Name, says, tt.source, tt.says)
				}
			}
		})
	}
}
