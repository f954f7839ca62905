package inventory

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestParseInformation(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       information
		fails      string
	}{
		{name: "release 550", text: "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 10\nGPU UUID: \t GPU-9221\nBus " +
			"Type: \t PCIe\nBus Location: \t 0000:62:00.0\nDevice Minor: \t 5\nGPU Excluded:\t No\n",
			want: information{gpu: NVIDIAGPU{Model: "NVIDIA H100 80GB HBM3", UUID: "GPU-9221", PCI: "0000:62:00.0",
				Minor: 5}}},
		{name: "not initialized", text: "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????\nBus Location: \t " +
			"0001:62:00.0\nDevice Minor: \t 0\n",
			want: information{gpu: NVIDIAGPU{Model: "Unknown", PCI: "0001:62:00.0"}}},
		{name: "excluded", text: "Device Minor: 1\nGPU Blacklisted: Yes\n",
			want: information{gpu: NVIDIAGPU{Minor: 1}, excluded: true}},
		{name: "empty", text: "", fails: `device minor "": not a number`},
		{name: "no number", text: "Device Minor: x\n", fails: `device minor "x": not a number`},
		{name: "no minor of the kernel's", text: "Device Minor: 1048576\n",
			fails: `device minor "1048576": not a number`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseInformation([]byte(tt.text))
			if err == nil && tt.fails != "" || err != nil && err.Error() != tt.fails {
				t.Fatalf("error %v, want %q", err, tt.fails)
			}
			must.Equal(t, "", tt.want, got, cmp.AllowUnexported(information{}))
		})
	}
}

func TestPCIAddressHasTheKernelsForm(t *testing.T) {
	for in, want := range map[string]string{
		"0000:07:00.0": "0000:07:00.0", "00000000:0F:00.0": "0000:0f:00.0", "00010000:E1:1F.7": "10000:e1:1f.7",
		"10000:e1:00.0": "10000:e1:00.0",
		"":              "", "07:00.0": "", "0000:07:00": "", "0000:07:20.0": "", "0000:07:00.8": "",
		"0000:100:00.0": "",
		"g:07:00.0":     "", "100000000:07:00.0": "", "-1:07:00.0": "",
	} {
		if got, ok := pciAddress(in); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", in, got, ok, want)
		}
	}
}

func TestParsePCI(t *testing.T) {
	got, ok := parsePCI([]byte("DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:20B0\nPCI_SUBSYS_ID=10DE:134F\n" +
		"PCI_SLOT_NAME=0000:07:00.0\nMODALIAS=pci:x\n"))
	if want := (pciDevice{address: "0000:07:00.0", class: 0x30200, vendor: 0x10de, device: 0x20b0,
		subsystem: 0x134f, driver: "nvidia"}); !ok || got != want {
		t.Errorf("got %+v, %t, want %+v", got, ok, want)
	}
	if got.id() != "10de:20b0" || !got.isDisplay() {
		t.Errorf("id %s, display %t", got.id(), got.isDisplay())
	}
	if got, ok := parsePCI([]byte("DRIVER=usb\nPRODUCT=1d6b/2/617\n")); ok {
		t.Errorf("a USB device is %+v", got)
	}
}

func TestParseMIGMinors(t *testing.T) {
	got := parseMIGMinors([]byte("config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access " +
		"4\nbad\ngpu0/gi0/ci1/access x\na b 5\n"))
	must.Equal(t, "", migMinors{"config": 1, "monitor": 2, "gpu0/gi0/access": 3, "gpu0/gi0/ci0/access": 4}, got)
	if m, err := got.of(0, 0, 0); err != nil || !cmp.Equal(m, []uint32{3, 4}) {
		t.Errorf("got %v, %v", m, err)
	}
	if m, err := got.of(0, 0, 1); err == nil || m != nil {
		t.Errorf("without its capability: %v, %v", m, err)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc " +
			"version 11.4.1\n": "550.54.15",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs-builder@U16-I1-N07) " +
			" Wed Jan 15\nGCC version:  gcc 11.4.1\n": "570.86.10",
		"GCC version: 11.4.1\n": "", "": "",
	} {
		if got := parseVersion([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestNamesAreInTheOrderOfNumbers(t *testing.T) {
	roots, _ := fixture(t, "mi250x4")
	if got, err := numbered(roots.Sys, kfdNodes, ""); err != nil || strings.Join(got, " ") != "0 1 2 3 4 5 6 7 8 9" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := names(roots.Sys, "class/none"); err != nil || got != nil {
		t.Errorf("no directory: %v, %v", got, err)
	}
	list := []string{"gi13", "gi2", "a", "gi1", "gi02"}
	for range 3 { // the order does not depend on the one before
		list = append(list[1:], list[0])
		sorted := strings.Join(slices.SortedFunc(slices.Values(list), byNumber), " ")
		if sorted != "a gi1 gi02 gi2 gi13" {
			t.Errorf("sorted: %s", sorted)
		}
	}
}

// FuzzTexts reads any text as each of the drivers' files and the kernel's are read. A minor is one
// that the kernel can have, and an address has sysfs's form.
func FuzzTexts(f *testing.F) {
	for _, name := range []string{"a100x8", "v100x2-no-nvml", "nvidia-broken"} {
		root := kernfstest.Fixture(f, "testdata/"+name+".txtar")
		gpus, err := names(root, "proc/"+nvidiaGPUs)
		must.NoError(f, err)
		for _, g := range gpus {
			if b, err := root.ReadFile("proc/" + nvidiaGPUs + "/" + g + "/information"); err == nil {
				f.Add(b)
			}
		}
	}
	root := kernfstest.Fixture(f, "testdata/mi250x4.txtar")
	for _, n := range []string{"0", "2", "2/io_links/0", "2/mem_banks/0"} {
		b, err := root.ReadFile("sys/" + kfdNodes + "/" + n + "/properties")
		must.NoError(f, err)
		f.Add(b)
	}
	for _, text := range []string{"config 1\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n", "\x00 1\n",
		"gpu0/gi0/access 99999999999999999999\n",
		"DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:20B0\nPCI_SLOT_NAME=0000:07:00.0\n",
		"add@/devices/x\x00SUBSYSTEM=drm\x00", "195:0\n", "0000:07:00.0"} {
		f.Add([]byte(text))
	}
	address := regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?$`)
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := parseInformation(b)
		if err != nil && i.gpu.UUID+i.gpu.Model+i.gpu.PCI != "" {
			t.Errorf("an error and %+v", i)
		}
		if i.gpu.Minor >= 1<<20 || !address.MatchString(i.gpu.PCI) || strings.Contains(i.gpu.UUID, "?") {
			t.Errorf("%+v", i.gpu)
		}
		minors := parseMIGMinors(b)
		for name, n := range minors {
			if n >= 1<<20 || strings.ContainsAny(name, " \t\n") {
				t.Errorf("%q is %d", name, n)
			}
		}
		if got, err := minors.of(0, 0, 0); (err == nil) != (len(got) == 2) {
			t.Errorf("got %v, %v", got, err)
		}
		for key := range parseProperties(b) {
			if strings.ContainsAny(key, " \n") {
				t.Errorf("%q of %q", key, b)
			}
		}
		d, ok := parsePCI(b)
		if again, ok2 := pciAddress(d.address); ok != ok2 || again != d.address {
			t.Errorf("%q: %+v, %t", b, d, ok)
		}
	})
}
