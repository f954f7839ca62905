package pbs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a resource's value.
type kind int

const (
	kindString kind = iota
	kindCount
	kindSize
	kindDuration
)

// definition is what PBS knows about a resource.
type definition struct {
	kind     kind
	chunk    bool // requested in a chunk (flag h of PBS); otherwise for the whole job
	sum      bool // the job's amount is the sum over its chunks (flags n, f)
	positive bool // 0 is refused
}

// definitions holds PBS's own resources (src/lib/Libattr/master_resc_def_all.xml) and those that
// its cgroups hook needs on the server: hpmem, ngpus, nmics, cgswap. All others are a site's own,
// with string values.
var definitions = map[string]definition{
	"ncpus":      {kind: kindCount, chunk: true, sum: true},
	"ngpus":      {kind: kindCount, chunk: true, sum: true},
	"nmics":      {kind: kindCount, chunk: true, sum: true},
	"mpiprocs":   {kind: kindCount, chunk: true, sum: true},
	"ompthreads": {kind: kindCount, chunk: true},
	"mem":        {kind: kindSize, chunk: true, sum: true, positive: true},
	"vmem":       {kind: kindSize, chunk: true, sum: true, positive: true},
	"hpmem":      {kind: kindSize, chunk: true, sum: true},
	"hbmem":      {kind: kindSize, chunk: true, sum: true},
	"cgswap":     {kind: kindSize, chunk: true, sum: true},
	"host":       {kind: kindString, chunk: true},
	"vnode":      {kind: kindString, chunk: true},
	"arch":       {kind: kindString, chunk: true},
	"vntype":     {kind: kindString, chunk: true},

	"walltime":      {kind: kindDuration},
	"soft_walltime": {kind: kindDuration},
	"min_walltime":  {kind: kindDuration},
	"max_walltime":  {kind: kindDuration},
	"cput":          {kind: kindDuration},
	"pcput":         {kind: kindDuration},
	"pmem":          {kind: kindSize, positive: true},
	"pvmem":         {kind: kindSize, positive: true},
	"file":          {kind: kindSize},
	"software":      {kind: kindString},
}

// Type returns the type of one of PBS's own resources, named as in its Python module: long, size,
// duration or string. For a site's own resource it is "".
func Type(resource string) string {
	d, known := definitions[resource]
	if !known {
		return ""
	}
	return [...]string{kindString: "string", kindCount: "long", kindSize: "size", kindDuration: "duration"}[d.kind]
}

var (
	errNotName    = errors.New("not a resource name")
	errNoResource = errors.New("a resource is missing")
)

// ResourceError returns err with the resource and its value, quoted by Shown.
func ResourceError(name, value string, err error) error {
	return fmt.Errorf("resource %s=%s: %w", Shown(name), Shown(value), err)
}

// parseResource parses name=value and checks the value if PBS knows the resource. It returns the
// name in PBS's spelling (resource names are case insensitive). Spaces around name and value are
// dropped.
func parseResource(text string) (name, value string, err error) {
	name, spelt, ok := strings.Cut(text, "=")
	name, spelt = strings.Trim(name, " "), strings.Trim(spelt, " ")
	switch {
	case text == "":
		return "", "", errNoResource
	case !ok:
		return "", "", fmt.Errorf("resource %s: no value", Shown(text))
	case !isName(name):
		return "", "", ResourceError(name, spelt, errNotName)
	}
	if lower := strings.ToLower(name); lower != name {
		if _, ok := definitions[lower]; ok || lower == "select" || lower == "place" || lower == "nodes" {
			name = lower
		}
	}
	if value, err = unquote(spelt); err == nil {
		err = definitions[name].check(value)
	}
	if err != nil {
		return "", "", ResourceError(name, spelt, err)
	}
	return name, value, nil
}

// CheckResources checks that the values of a resource list from outside, such as an event's
// Resource_List, have their resources' types. It is laxer than ParseResourceList, which reads
// users' requests: mem may be 0, and select and place are not checked. The error names the first
// bad resource, in order of names, and its value.
func CheckResources(resources map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		err := definitions[name].kind.check(resources[name])
		if !isName(name) {
			err = errNotName
		}
		if err != nil {
			return ResourceError(name, resources[name], err)
		}
	}
	return nil
}

// check reports whether a user may request value.
func (d definition) check(value string) error {
	if err := d.kind.check(value); err != nil {
		return err
	}
	if size, _, err := parseSize(value); err == nil && size == 0 && d.positive {
		return errors.New("not more than 0")
	}
	return nil
}

// check reports whether value is of kind k.
func (k kind) check(value string) error {
	switch k {
	case kindCount:
		_, err := parseCount(value)
		return err
	case kindSize:
		_, _, err := parseSize(value)
		return err
	case kindDuration:
		_, err := parseDuration(value)
		return err
	}
	return nil
}

func parseCount(value string) (int64, error) {
	if !isDigits(value) {
		return 0, errors.New("not a whole number")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n > math.MaxInt32 {
		return 0, errTooLarge
	}
	return n, nil
}

// total adds up the values of one resource. times is how often a value counts.
type total struct {
	kind  kind
	n     int64
	shift uint // of the smallest unit among the values, so that 60mb and 70mb make 130mb
	begun bool
}

func (t *total) add(value string, times int) error {
	n, shift := int64(0), uint(0)
	var err error
	if t.kind == kindSize {
		var size Size
		size, shift, err = parseSize(value)
		n = int64(size)
	} else {
		n, err = parseCount(value)
	}
	if err != nil {
		return err
	}
	if n > (math.MaxInt64-t.n)/int64(times) {
		return fmt.Errorf("the sum is %w", errTooLarge)
	}
	t.n += n * int64(times)
	if !t.begun || shift < t.shift {
		t.shift = shift
	}
	t.begun = true
	return nil
}

func (t *total) String() string {
	if t.kind == kindSize {
		return Size(t.n).in(t.shift)
	}
	return strconv.FormatInt(t.n, 10)
}

// names returns the resources in PBS's order: ncpus, mem, then the others by name.
func names(resources map[string]string) []string {
	rank := func(name string) int { return slices.Index([]string{"mem", "ncpus"}, name) }
	return slices.SortedFunc(maps.Keys(resources), func(a, b string) int {
		if ra, rb := rank(a), rank(b); ra != rb {
			return rb - ra
		}
		return strings.Compare(a, b)
	})
}
