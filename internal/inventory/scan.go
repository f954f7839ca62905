package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// Options say what to look for, and how.
type Options struct {
	GPUs  bool          // look for the GPUs and accelerators of all vendors
	NVML  string        // path of the program that asks NVML; "" asks only the kernel
	Limit time.Duration // for each source; 0 means 10 s
	// Devices are those that the administrator has described.
	Devices []Configured
	// Node returns the node at a path in /dev. It fails if nothing exists there or it is not a
	// device.
	Node func(path string) (topology.DeviceNode, error)
	// Glob returns the matching paths, as filepath.Glob does.
	Glob func(pattern string) ([]string, error)
	// Ask is AskNVML if it is nil.
	Ask func(ctx context.Context, program string, limit time.Duration) (*NVIDIA, error)
}

// Configured describes devices that no other source finds. Each matching path is one device.
type Configured struct {
	Resource string            `json:"resource"`
	Paths    []string          `json:"paths"` // patterns of filepath.Glob
	Model    string            `json:"model,omitempty"`
	Env      map[string]string `json:"env,omitempty"` // {path} and {index} in a value are replaced
}

// configuredSource is the source of devices from the configuration.
const configuredSource = "device"

// ngpus is the resource of all devices that are found without configuration.
const ngpus = "ngpus"

// defaultLimit applies to a source if Options have no limit. NVML takes seconds if no process keeps
// the driver initialized: about two per GPU with older drivers.
const defaultLimit = 10 * time.Second

// found is the result of one source.
type found struct {
	devices []topology.Device
	shared  []topology.DeviceNode // needed by all holders of devices
	sources []Source
	mig     map[string]map[string][]topology.DeviceNode // see Inventory
}

// Scan finds the node's devices. It never fails as a whole: if a source fails, its Source says so,
// and the devices of the others are returned. Options.Limit applies to each source. If a driver
// hangs while one of its files is read, a goroutine remains and Scan goes on without it.
func Scan(ctx context.Context, roots kernfs.Roots, o Options) *Inventory {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.Ask == nil {
		o.Ask = AskNVML
	}
	inv := &Inventory{Devices: []topology.Device{}, Shared: map[string][]topology.DeviceNode{}}
	add := func(vendor string, f found) {
		inv.Devices = append(inv.Devices, f.devices...)
		inv.Sources = append(inv.Sources, f.sources...)
		if f.mig != nil {
			inv.MIG = f.mig
		}
		if len(f.devices) > 0 && len(f.shared) > 0 {
			inv.Shared[vendor] = f.shared
		}
	}
	if o.GPUs {
		s := &scan{roots: roots, o: o}
		for _, v := range vendors {
			limit := time.Duration(len(v.sources)) * o.Limit
			add(v.name, within(ctx, v.name, limit, func(ctx context.Context) found { return v.find(s, ctx) }))
		}
	}
	if len(o.Devices) > 0 {
		taken := map[string]string{}
		for _, d := range inv.Devices {
			for _, n := range d.Nodes {
				taken[n.String()] = d.Resource
			}
		}
		add("", within(ctx, configuredSource, o.Limit,
			func(context.Context) found { return configured(roots.Sys, o, taken) }))
	}
	identify(inv.Devices)
	inv.number(roots) // last, because asking NVML may load modules
	return inv
}

// scan is what the sources share.
type scan struct {
	roots kernfs.Roots
	o     Options
}

// within returns the result of look, or an error if it takes too long. While a look at a source
// hangs there is no other, because that would hang too and occupy one more thread.
func within(ctx context.Context, name string, limit time.Duration, look func(context.Context) found) found {
	if err := hung.err(name); err != nil {
		return found{sources: []Source{{Name: name, Error: err.Error()}}}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result := make(chan found, 1)
	begun := time.Now()
	go func() { result <- look(ctx) }()
	select {
	case f := <-result:
		return f
	case <-ctx.Done():
	}
	select {
	case f := <-result: // the result came at the last moment
		return f
	default:
	}
	over := hung.add(name, "there is no answer", begun)
	go func() {
		<-result
		over()
	}()
	return found{sources: []Source{{Name: name, Error: fmt.Sprintf("no answer within %v: %v", limit, ctx.Err())}}}
}

// link records a link from a device to another one, which has its ID.
func link(devices []topology.Device, from, to, count int) {
	if devices[from].Links == nil {
		devices[from].Links = map[string]int{}
	}
	devices[from].Links[devices[to].ID] = count
}

// identify gives each device its ID. That is the UUID, the PCI address or the path of its first
// node: the first of these that no other device has. Parts of one AMD GPU share its address, and
// with some drivers its UUID.
func identify(devices []topology.Device) {
	names := func(d topology.Device) []string {
		names := []string{d.UUID}
		if d.Resource == ngpus && d.Parent == "" {
			names = append(names, d.PCI)
		}
		if len(d.Nodes) > 0 {
			names = append(names, d.Nodes[0].Path)
		}
		return slices.DeleteFunc(names, func(n string) bool { return n == "" })
	}
	count := map[string]int{}
	for _, d := range devices {
		for _, n := range names(d) {
			count[n]++
		}
	}
	for i := range devices {
		d := &devices[i]
		if d.UUID != "" && count[d.UUID] > 1 {
			d.UUID = "" // it would select all of them
		}
		for _, n := range names(*d) {
			if d.ID == "" && count[n] == 1 {
				d.ID = n
			}
		}
	}
}

// problems collects a source's problems with individual devices.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p problems) String() string { return strings.Join(p, "; ") }

// names returns the contents of the directory dir, sorted, numbers by value. It returns nothing if
// the directory does not exist. Unlike FS.Dirs it includes links, which make up the classes and
// buses of sysfs.
func names(f *kernfs.FS, dir string) ([]string, error) {
	d, err := f.OpenFile(dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", f.Path(dir), err)
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.Name())
	}
	slices.SortFunc(list, byNumber)
	return list, nil
}

// numbered returns the names in dir that consist of prefix and a number, sorted by number.
func numbered(f *kernfs.FS, dir, prefix string) ([]string, error) {
	list, err := names(f, dir)
	return slices.DeleteFunc(list, func(n string) bool {
		rest, ok := strings.CutPrefix(n, prefix)
		_, err := strconv.ParseUint(rest, 10, 31)
		return !ok || err != nil
	}), err
}

// byNumber compares names by the number at their end if the rest is the same.
func byNumber(a, b string) int {
	stem := func(s string) (string, int) {
		rest := strings.TrimRight(s, "0123456789")
		n, err := strconv.Atoi(s[len(rest):])
		if err != nil {
			return s, -1
		}
		return rest, n
	}
	sa, na := stem(a)
	sb, nb := stem(b)
	if c := strings.Compare(sa, sb); c != 0 {
		return c
	}
	return cmp.Or(na-nb, strings.Compare(a, b))
}

// text returns the trimmed text of a small file, or "" if it cannot be read. It is for information
// that is not essential.
func text(f *kernfs.FS, name string) string {
	b, err := f.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
