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
	const pci = "-- sys/bus/pci/devices/"
	google := func(address, rest string) string {
		return pci + address + "/uevent --\nPCI_SLOT_NAME=" + address + "\nDRIVER=vfio-pci\n" + rest + "\n"
	}
	group := func(number string, addresses ...string) string {
		tree := "-- sys/class/vfio/" + number + "/dev --\n245:" + number + "\n"
		for _, a := range addresses {
			tree += "-- sys/kernel/iommu_groups/" + number + "/devices/" + a + "/uevent --\n"
		}
		return tree
	}
	const container, v6e, tpu7x = "-- sys/class/misc/vfio/dev --\n10:196\n", "PCI_ID=1AE0:006F", "PCI_ID=1AE0:0076"
	for _, tt := range []struct {
		name, tree string
		devices    string // ID, model, index, nodes
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
			"0000:19:00.0 Habana 1da3:1000 3 c 508:6 c 508:7", "", ""},
		{"a Gaudi without its control node", head + "-- sys/class/accel/accel0/dev --\n508:0\n-- " +
			"sys/class/accel/accel0/device/uevent --\nPCI_ID=1DA3:1020\nPCI_SLOT_NAME=0000:19:00.0\n", "", "habana",
			"error open /sys/class/accel/accel_controlD0/dev"},
		{"an accelerator of another vendor", head + "-- sys/class/accel/accel0/dev --\n261:0\n-- " +
			"sys/class/accel/accel0/device/uevent --\nDRIVER=intel_vpu\nPCI_ID=8086:7D1D\nPCI_SLOT_NAME=0000:00:0b.0\n",
			"", "", ""},
		{"a TPU v2 and a v3", head + google("0000:00:04.0", "PCI_ID=1AE0:0027\nPCI_SUBSYS_ID=1AE0:004E") +
			google("0000:00:05.0", "PCI_ID=1AE0:0027\nPCI_SUBSYS_ID=1AE0:004F") +
			pci + "0000:00:04.0/accel/accel1/dev --\n121:1\n" + pci + "0000:00:05.0/accel/accel0/dev --\n121:0\n",
			"0000:00:04.0 Google TPU v2 1 c 121:1; 0000:00:05.0 Google TPU v3 0 c 121:0", "", ""},
		{"a TPU of Google's driver that has no name here", head + google("0000:00:04.0", "PCI_ID=1AE0:0056") + pci +
			"0000:00:04.0/accel/accel0/dev --\n121:0\n", "0000:00:04.0 Google 1ae0:0056 0 c 121:0", "", ""},
		{"a TPU without a driver", head + google("0000:00:04.0", v6e), "", "tpu",
			"note 0000:00:04.0 (1ae0:006f) has no device node: it needs Google's driver, or vfio-pci and an IOMMU " +
				"group"},
		{"a TPU in a VFIO group without an IOMMU", head + google("0000:00:04.0", v6e) + group("noiommu-0") +
			"-- sys/kernel/iommu_groups/0/devices/0000:00:04.0/uevent --\n", "", "tpu",
			"note 0000:00:04.0 (1ae0:006f) has no device node"},
		{"two TPUs in one group", head + google("0000:00:04.0", v6e) + google("0000:00:05.0", v6e) +
			google("0000:00:06.0", v6e) + group("3", "0000:00:04.0", "0000:00:05.0") + group("4", "0000:00:06.0") +
			container, "0000:00:06.0 Google TPU v6e 2 c 245:4", "tpu",
			"error 0000:00:04.0: its IOMMU group 3 has other members and cannot be given to a job: " +
				"0000:00:04.0 0000:00:05.0"},
		{"a TPU without /dev/vfio/vfio", head + google("0000:00:04.0", v6e) + group("0", "0000:00:04.0"), "", "tpu",
			"error open /sys/class/misc/vfio/dev: no such file or directory"},
		{"two TPU7x of two functions", head + google("0000:00:04.0", tpu7x) + google("0000:00:05.0", tpu7x) +
			google("0000:00:06.0", tpu7x) + google("0000:00:07.0", tpu7x) + group("0", "0000:00:04.0") +
			group("1", "0000:00:05.0") + group("2", "0000:00:06.0") + group("3", "0000:00:07.0") + container,
			"0000:00:04.0 Google TPU7x 0 c 245:0 c 245:1; 0000:00:06.0 Google TPU7x 1 c 245:2 c 245:3", "", ""},
		{"half a TPU7x", head + google("0000:00:04.0", tpu7x) + group("0", "0000:00:04.0") + container, "", "tpu",
			"error 0000:00:04.0: a Google TPU7x has 2 PCI functions, and 1 was found"},
		{"a TPU7x of which half has no driver", head + google("0000:00:04.0", tpu7x) + google("0000:00:05.0", tpu7x) +
			group("0", "0000:00:04.0") + container, "", "tpu", "note 0000:00:05.0 (1ae0:0076) has no device node"},
		{"a TPU with a node of its own for VFIO", head + google("0000:00:04.0", v6e) + group("0", "0000:00:04.0") +
			container + pci + "0000:00:04.0/vfio-dev/vfio0/dev --\n244:0\n",
			"0000:00:04.0 Google TPU v6e 0 c 245:0 c 244:0", "", ""},
		{"a device of Google that DPDK uses", head + google("0000:00:03.0", "PCI_ID=1AE0:0042\nPCI_CLASS=20000") +
			group("0", "0000:00:03.0"), "", "", ""},
		{"a TPU that is not known", head + google("0000:00:04.0", "PCI_ID=1AE0:0099\nPCI_CLASS=120000") +
			group("0", "0000:00:04.0"), "", "tpu",
			"note 0000:00:04.0 (1ae0:0099) has the driver vfio-pci, and is not a TPU that is known"},
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
				words := []string{d.ID, d.Model, string(rune('0' + d.Index))}
				for _, n := range d.Nodes {
					words = append(words, n.String())
				}
				devices = append(devices, strings.Join(words, " "))
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
