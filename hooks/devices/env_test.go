package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

func a100(i int) topology.Device {
	n := uint32(i)
	return topology.Device{ID: uuid(i), Resource: "ngpus", Vendor: "nvidia", Model: "NVIDIA A100-SXM4-40GB",
		Memory: 40 << 30, UUID: uuid(i),
		PCI: "0000:0" + string(rune('1'+i)) + ":00.0", Index: i, NUMA: i / 2,
		Nodes: []topology.DeviceNode{{Path: "/dev/nvidia" + string(rune('0'+i)), Major: 195, Minor: n}}}
}

func uuid(i int) string { return "GPU-0000000" + string(rune('0'+i)) + "-0000-0000-0000-000000000000" }

func migInstance() topology.Device {
	return topology.Device{ID: "MIG-1", Resource: "ngpus", Vendor: "nvidia", UUID: "MIG-1", PCI: "0000:01:00.0",
		Parent: uuid(0), Instance: "3.0",
		Nodes: []topology.DeviceNode{{Path: "/dev/nvidia0", Major: 195},
			{Path: "/dev/nvidia-caps/nvidia-cap21", Major: 236, Minor: 21}}}
}

var nvidiaShared = []topology.DeviceNode{{Path: "/dev/nvidiactl", Major: 195, Minor: 255},
	{Path: "/dev/nvidia-uvm", Major: 511}}

func TestVariablesNameTheGrantedDevices(t *testing.T) {
	mi250 := func(i int, uuid string) topology.Device {
		return topology.Device{ID: fmt.Sprintf("0000:0%d:00.0", i), Resource: "ngpus", Vendor: "amd", UUID: uuid,
			Index: i}
	}
	unnamed := func(i int) topology.Device {
		d := mi250(i, "")
		d.Vendor = "nvidia"
		return d
	}
	intel := topology.Device{ID: "0000:03:00.0", Resource: "ngpus", Vendor: "intel"}
	gaudi := func(path string) topology.Device {
		return topology.Device{ID: path, Resource: "ngpus", Vendor: "habana", Index: 7,
			Nodes: []topology.DeviceNode{{Path: path}}}
	}
	tenstorrent := func(index int, pci string) topology.Device {
		return topology.Device{ID: pci, Resource: "ngpus", Vendor: "tenstorrent", PCI: pci, Index: index}
	}
	tpus := func(indices ...int) (list []topology.Device) {
		for _, i := range indices {
			list = append(list, topology.Device{ID: fmt.Sprintf("0000:0%d:00.0", i), Resource: "ngpus", Vendor: "tpu",
				Index: i})
		}
		return list
	}
	fpga := func(env ...string) topology.Device {
		d := topology.Device{Resource: "fpga", Env: map[string]string{}}
		for i := 0; i < len(env); i += 2 {
			d.Env[env[i]] = env[i+1]
		}
		return d
	}
	order := [2]string{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}
	tests := []struct {
		name  string
		held  []topology.Device
		there []string
		want  map[string]string
	}{
		{"no GPU, on a node without any", nil, nil, map[string]string{
			"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
			"PBS_JOB_GPUS": ""}},
		{"no GPU, on a node with all kinds", nil, inventory.Vendors(),
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1],
				"NVIDIA_VISIBLE_DEVICES": "void", "ROCR_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": "",
				"HABANA_VISIBLE_DEVICES": "", "HABANA_VISIBLE_MODULES": "", "TPU_VISIBLE_CHIPS": "",
				"TT_VISIBLE_DEVICES": "", "PBS_JOB_GPUS": ""}},
		{"two of NVIDIA", []topology.Device{a100(3), a100(5)}, []string{"nvidia"},
			map[string]string{"CUDA_VISIBLE_DEVICES": uuid(3) + "," + uuid(5),
				order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": uuid(3) + "," + uuid(5),
				"PBS_JOB_GPUS": uuid(3) + "," + uuid(5)}},
		{"a MIG instance", []topology.Device{migInstance()}, []string{"nvidia"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-1", order[0]: order[1],
				"NVIDIA_VISIBLE_DEVICES": "MIG-1", "PBS_JOB_GPUS": "MIG-1"}},
		{"NVIDIA without UUIDs", []topology.Device{unnamed(4), unnamed(6)}, []string{"nvidia"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "0,1", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "4,6",
				"PBS_JOB_GPUS": "0000:04:00.0,0000:06:00.0"}},
		{"two of AMD", []topology.Device{mi250(2, "GPU-aa"), mi250(3, "GPU-bb")}, []string{"amd"},
			map[string]string{order[0]: order[1],
				"NVIDIA_VISIBLE_DEVICES": "void", "ROCR_VISIBLE_DEVICES": "GPU-aa,GPU-bb",
				"PBS_JOB_GPUS": "GPU-aa,GPU-bb"}},
		{"AMD without a UUID", []topology.Device{mi250(2, "GPU-aa"), mi250(3, "")}, []string{"amd"},
			map[string]string{order[0]: order[1],
				"NVIDIA_VISIBLE_DEVICES": "void", "ROCR_VISIBLE_DEVICES": "0,1",
				"PBS_JOB_GPUS": "GPU-aa,0000:03:00.0"}},
		{"AMD and NVIDIA", []topology.Device{mi250(2, "GPU-aa"), a100(0)}, []string{"amd", "nvidia"},
			map[string]string{"CUDA_VISIBLE_DEVICES": uuid(0),
				order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": uuid(0), "ROCR_VISIBLE_DEVICES": "GPU-aa",
				"PBS_JOB_GPUS": "GPU-aa," + uuid(0)}},
		{"one of Intel, of perhaps two tiles", []topology.Device{intel}, []string{"intel"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1],
				"NVIDIA_VISIBLE_DEVICES": "void", "ZE_AFFINITY_MASK": "0,1",
				"PBS_JOB_GPUS": "0000:03:00.0"}},
		{"Gaudi, by the numbers of its nodes", []topology.Device{gaudi("/dev/accel/accel2"), gaudi("/dev/hl5"),
			gaudi("/dev/other")}, []string{"habana"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
				"HABANA_VISIBLE_DEVICES": "2,5,7",
				"HABANA_VISIBLE_MODULES": "7,7,7",
				"PBS_JOB_GPUS":           "/dev/accel/accel2,/dev/hl5,/dev/other"}},
		{"TPUs, a part of the host", tpus(2, 3, 6, 7), []string{"tpu"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
				"TPU_VISIBLE_CHIPS": "2,3,6,7", "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1", "TPU_PROCESS_BOUNDS": "1,1,1",
				"ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
				"PBS_JOB_GPUS":               "0000:02:00.0,0000:03:00.0,0000:06:00.0,0000:07:00.0"}},
		{"TPUs in a number without a shape", tpus(0, 1, 2), []string{"tpu"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
				"TPU_VISIBLE_CHIPS": "0,1,2", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
				"PBS_JOB_GPUS": "0000:00:00.0,0000:01:00.0,0000:02:00.0"}},
		{"all TPUs of the host", tpus(0, 1, 2, 3, 4, 5, 6, 7), []string{"tpu"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
				"PBS_JOB_GPUS": "0000:00:00.0,0000:01:00.0,0000:02:00.0,0000:03:00.0," +
					"0000:04:00.0,0000:05:00.0,0000:06:00.0,0000:07:00.0"}},
		{"Tenstorrent, by address", []topology.Device{tenstorrent(5, "0000:43:00.0"),
			tenstorrent(4, "0000:44:00.0")}, []string{"tenstorrent"},
			map[string]string{"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
				"TT_VISIBLE_DEVICES": "0000:43:00.0,0000:44:00.0", "PBS_JOB_GPUS": "0000:43:00.0,0000:44:00.0"}},
		{"configured ones", []topology.Device{fpga("FPGA", "/dev/fpga0", "MODE", "on"),
			fpga("FPGA", "/dev/fpga1", "MODE", "on")}, nil, map[string]string{
			"CUDA_VISIBLE_DEVICES": "", order[0]: order[1], "NVIDIA_VISIBLE_DEVICES": "void",
			"FPGA": "/dev/fpga0,/dev/fpga1", "MODE": "on", "PBS_JOB_GPUS": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			there := map[string]int{}
			for _, v := range tt.there {
				there[v] = 8
			}
			var g *inventory.Grant
			if tt.held != nil {
				g = &inventory.Grant{Devices: tt.held}
			}
			must.Equal(t, "", tt.want, variables(g, there))
		})
	}
}

// A job with all TPUs of a host has no variables of libtpu. Its containers have none either. Those
// that qsub -V has copied from a job with a part of them are removed.
func TestJobWithAllTPUsHasNoVariablesOfAPart(t *testing.T) {
	chip := func(i int) topology.Device {
		return topology.Device{ID: fmt.Sprintf("0000:0%d:00.0", i), Resource: "ngpus", Vendor: "tpu", Index: i,
			Nodes: []topology.DeviceNode{{Path: fmt.Sprintf("/dev/accel%d", i), Major: 261, Minor: uint32(i)}}}
	}
	n := newNode(t, 0, &inventory.Inventory{Devices: []topology.Device{chip(0), chip(1)},
		Sources: []inventory.Source{{Name: "tpu", Count: 2}}}, nil)
	n.do(hostapi.EventStartup)
	for id, tt := range map[string]struct {
		chips []topology.Device
		set   int
		unset []string
	}{
		"1.srv": {[]topology.Device{chip(0), chip(1)}, 0, []string{"TPU_VISIBLE_CHIPS", "TPU_PROCESS_BOUNDS"}},
		"2.srv": {[]topology.Device{chip(1)}, len(tpuVariables), nil},
		"3.srv": {nil, 1, []string{"TPU_PROCESS_BOUNDS"}},
	} {
		n.job(id, tt.chips...)
		n.do(hostapi.EventBegin, id)
		out, err := n.hook.ExecjobLaunch(t.Context(), &hostapi.Request{Event: hostapi.EventLaunch,
			Job: &hostapi.Job{ID: id}, Env: map[string]string{"TPU_VISIBLE_CHIPS": "0", "TPU_PROCESS_BOUNDS": "1,1,1"}})
		must.NoError(t, err)
		must.Equal(t, id+": unset", tt.unset, out.UnsetEnv)
		spec := ""
		if len(tt.chips) > 0 {
			text, err := os.ReadFile(n.cdi.file(id))
			must.NoError(t, err)
			spec = string(text)
		}
		set := 0
		for _, name := range tpuVariables {
			_, is := out.SetEnv[name]
			if is {
				set++
			}
			if in := strings.Contains(spec, `"`+name+"="); in != (is && spec != "") {
				t.Errorf("%s: %s is set: %t, in the CDI specification: %t", id, name, is, in)
			}
		}
		must.Equal(t, id+": variables of libtpu", tt.set, set)
	}
}
