package usage

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Sum returns what all hosts used together, in the way that a mother superior combines the usage of
// its sisters. Numbers, sizes and durations are added up, including cpupercent; walltime is the
// longest. Strings that hold JSON objects are merged. If two have the same key, the host whose name
// comes last wins. Other values stay if all hosts agree. A resource with a value that cannot be
// added up (another kind, negative, too large) is left out: a part is not the total. Hosts without
// a resource are ignored for it.
func Sum(perHost map[string]hostapi.Resources) hostapi.Resources {
	values := map[string][]string{}
	for _, host := range slices.Sorted(maps.Keys(perHost)) {
		for name, v := range perHost[host] {
			values[name] = append(values[name], v)
		}
	}
	all := hostapi.Resources{}
	for name, vs := range values {
		if v := merge(name, vs); v != "" {
			all[name] = v
		}
	}
	return all
}

// merge returns the total of one resource, "" if there is none. PBS knows the type of a resource
// from its definition. The few that hookhost reports are known here by name; others are recognized
// by the form of all their values.
func merge(name string, values []string) string {
	kinds := []kind{addInts, addFloats, addSizes, addDurations, unite, agree}
	switch name {
	case "walltime":
		kinds = []kind{longest}
	case "cput":
		kinds = []kind{addDurations}
	case "mem", "vmem", "hpmem":
		kinds = []kind{addSizes}
	}
	for _, k := range kinds {
		if v, ok := k(values); ok {
			return v
		}
	}
	return ""
}

// A kind returns the total of values, and false if one of them is not of its kind. The total is ""
// if a value is negative or the total too large.
type kind func(values []string) (total string, ok bool)

// each parses all values; it returns false if one cannot be parsed.
func each[T any](values []string, parse func(string) (T, error)) ([]T, bool) {
	parsed := make([]T, 0, len(values))
	for _, v := range values {
		p, err := parse(v)
		if err != nil {
			return nil, false
		}
		parsed = append(parsed, p)
	}
	return parsed, true
}

// add returns the sum of numbers, and false if one is negative or the sum too large.
func add[T ~int64](numbers []T) (sum T, ok bool) {
	const most = math.MaxInt64 - int64(time.Second) // can still be rounded up
	for _, n := range numbers {
		if n < 0 || int64(n) > most-int64(sum) {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// total parses and adds up values and formats the sum.
func total[T ~int64](values []string, parse func(string) (T, error), format func(T) string) (string, bool) {
	numbers, ok := each(values, parse)
	if !ok {
		return "", false
	}
	sum, ok := add(numbers)
	if !ok {
		return "", true
	}
	return format(sum), true
}

func addInts(values []string) (string, bool) {
	parse := func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
	return total(values, parse, func(n int64) string { return strconv.FormatInt(n, 10) })
}

func addSizes(values []string) (string, bool) { return total(values, pbs.ParseSize, pbs.Size.KB) }

func addDurations(values []string) (string, bool) {
	return total(values, pbs.ParseDuration, formatDuration)
}

func addFloats(values []string) (string, bool) {
	floats, ok := each(values, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	if !ok {
		return "", false
	}
	sum := 0.0
	for _, f := range floats {
		if f < 0 {
			return "", true
		}
		sum += f
	}
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return "", true
	}
	return strconv.FormatFloat(sum, 'f', -1, 64), true
}

func longest(values []string) (string, bool) {
	ds, ok := each(values, pbs.ParseDuration)
	if !ok {
		return "", false
	}
	return formatDuration(slices.Max(ds)), true
}

func unite(values []string) (string, bool) {
	union := map[string]json.RawMessage{}
	for _, v := range values {
		if !strings.HasPrefix(v, "{") || json.Unmarshal([]byte(v), &union) != nil {
			return "", false
		}
	}
	b, err := json.Marshal(union)
	return string(b), err == nil
}

func agree(values []string) (string, bool) { return values[0], len(slices.Compact(values)) == 1 }
