package pbscgroups

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/config"
)

// outcome is the result for a value.
type outcome struct {
	became Became
	set    []setting
	why    string
}

// setting is a line of hookhost.toml: "memory.default" and its value there.
type setting struct{ key, value string }

// outcomeOf returns the outcome of one setting. If our configuration rejects the value, its error
// is the reason of the refusal.
func outcomeOf(s setting) outcome {
	if _, err := config.Parse([]byte(s.key+" = "+s.value+"\n"), config.Here{}); err != nil {
		why := strings.TrimPrefix(err.Error(), "line 1: ")
		return outcome{became: Refused, why: strings.ReplaceAll(why, "\n", "; ")}
	}
	return outcome{became: Ours, set: []setting{s}}
}

// spelled reads a value into one key of ours.
func spelled(ours string, spell func(any) (string, error)) reader {
	return func(v any) (outcome, error) {
		text, err := spell(v)
		if err != nil {
			return outcome{}, err
		}
		return outcomeOf(setting{ours, text}), nil
	}
}

// became reads a value of which only the type is checked.
func became(b Became, check func(any) error) reader {
	return func(v any) (outcome, error) { return outcome{became: b}, check(v) }
}

func isAny(any) error { return nil }

func isText(v any) error {
	if _, is := v.(string); !is {
		return errors.New("want a string")
	}
	return nil
}

func isNumber(v any) error {
	_, err := number(v)
	return err
}

// number returns a finite number.
func number(v any) (float64, error) {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil {
		return 0, errors.New("want a number")
	}
	return f, nil
}

// numberOrText also accepts a number in a string, as Python's int and float do.
func numberOrText(v any) (float64, error) {
	if text, is := v.(string); is && plainNumber.MatchString(text) {
		v = json.Number(strings.TrimSpace(text))
	}
	return number(v)
}

var plainNumber = regexp.MustCompile(`^\s*[-+]?[0-9]+(\.[0-9]*)?\s*$`)

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func boolean(v any) (string, error) { return conditionOf(v).String(), isCondition(v) }

func text(v any) (string, error) { return quote(v), isText(v) }

func float(v any) (string, error) {
	f, err := number(v)
	return floatText(f), err
}

func floatText(f float64) string {
	s := decimal(f)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// leastShares is 2 of the 1000 cpu.shares of a cpu.
const leastShares = 0.002

func sharesFraction(v any) (string, error) {
	f, err := number(v)
	return floatText(max(f, leastShares)), err
}

// whole returns a number without its fraction, as Python's int does.
func whole(v any) (string, error) {
	f, err := numberOrText(v)
	return decimal(math.Trunc(f)), err
}

func seconds(v any) (string, error) {
	f, err := number(v)
	return quote(decimal(f) + "s"), err
}

func secondsOrText(v any) (string, error) {
	f, err := numberOrText(v)
	return quote(decimal(f) + "s"), err
}

func microseconds(v any) (string, error) {
	f, err := number(v)
	return quote(decimal(f) + "us"), err
}

// sizeForm matches sizes that the stock hook reads completely (openpbs pbs_cgroups.PY,
// convert_size). The hook reads the digits at the beginning and one letter, and ignores the rest.
var sizeForm = regexp.MustCompile(`(?i)^\+?([0-9]+)([bkmgtpezy]?)(i?b)?$`)

func size(v any) (string, error) {
	given, isText := v.(string)
	if n, isNumber := v.(json.Number); isNumber {
		given, isText = n.String(), true
	}
	form := sizeForm.FindStringSubmatch(given)
	if form == nil || !isText {
		return "", errors.New(`want a size such as "256MB"`)
	}
	unit := strings.TrimPrefix(strings.ToLower(form[2]), "b")
	return quote(form[1] + unit + "b"), nil
}

func megabytes(v any) (string, error) {
	f, err := number(v)
	if f == math.Trunc(f) {
		return quote(decimal(f) + "mb"), err
	}
	return quote(decimal(math.Trunc(f*(1<<20))) + "b"), err
}

// cpus reads exclude_cpus: a list of numbers and ranges, or one string with them (openpbs
// pbs_cgroups.PY, expand_list).
func cpus(v any) (string, error) {
	items, isList := v.([]any)
	if !isList {
		if isText(v) != nil {
			return "", errCPUs
		}
		items = []any{v}
	}
	var all []string
	for _, item := range items {
		_, isNumber := item.(json.Number)
		if !isNumber && isText(item) != nil {
			return "", errCPUs
		}
		all = append(all, strings.ReplaceAll(fmt.Sprint(item), " ", ""))
	}
	return quote(strings.Join(all, ",")), nil
}

var errCPUs = errors.New(`want a list of cpus such as [0, "8-9"] or "0,8-9"`)

func placement(v any) (outcome, error) {
	ours, why := "pack", ""
	switch v {
	case "load_balanced":
		ours = "spread"
	case "load_packed":
	case "job_balanced":
		ours, why = "spread", "job_balanced counts the jobs on a socket, spread counts its cpus"
	default:
		why = "for a value that it does not know, the stock hook takes sockets in the order of their numbers"
	}
	o := outcomeOf(setting{"cpuset.placement", quote(ours)})
	o.why = why
	return o, isText(v)
}

func nvidiaSMI(v any) (outcome, error) {
	if v == "" {
		return outcomeOf(setting{"devices.discover_gpus", "false"}), nil
	}
	return outcome{became: NotNeeded}, isText(v)
}

func mountPath(v any) (outcome, error) {
	const usual = "/sys/fs/cgroup"
	at, _ := v.(string)
	if p := path.Clean(at); at == "" || p == usual || strings.HasPrefix(p, usual+"/") {
		return outcome{became: NotNeeded}, isText(v)
	}
	return outcome{became: Refused, why: "hookhost looks for all controllers below one directory, " + usual +
		": if they are all below another one, set [cgroup] mount to that"}, nil
}

// allow reads devices.allow (openpbs pbs_cgroups.PY, setup_job_devices_env and the loop over
// cgroup.devices.allow). Entries that ours cannot express are left out.
func allow(v any) (outcome, error) {
	entries, isList := v.([]any)
	if !isList {
		return outcome{}, errors.New("want a list of entries")
	}
	var ours, refused []string
	for _, entry := range entries {
		one, why := allowEntry(entry)
		if why == "" {
			why = outcomeOf(setting{"devices.allow", "[" + one + "]"}).why
		}
		if why != "" {
			refused = append(refused, quote(entry)+": "+why)
			continue
		}
		ours = append(ours, one)
	}
	o := outcomeOf(setting{"devices.allow", "[" + strings.Join(ours, ", ") + "]"})
	if len(refused) > 0 {
		o.became, o.why = Refused, "left out: "+strings.Join(refused, "; ")
	}
	return o, nil
}

// allowEntry returns an entry in the form of hookhost.toml, or why there is none.
func allowEntry(entry any) (ours, why string) {
	if rule, isText := entry.(string); isText {
		if strings.HasPrefix(rule, "a") { // the kernel ignores the rest (device_cgroup.c)
			rule = "a *:* rwm"
		}
		return quote(strings.Join(strings.Fields(rule), " ")), ""
	}
	parts, isList := entry.([]any)
	switch {
	case !isList:
		return "", "neither a string nor a list: the stock hook leaves it out too"
	case len(parts) < 2 || isText(parts[0]) != nil || isText(parts[1]) != nil:
		return "", "want a name in /dev and an access"
	case strings.ContainsAny(parts[0].(string), `*?[\`):
		return "", "in hookhost, a name with one of *?[\\ is a pattern; " +
			"in the stock hook it is a device that does not exist"
	}
	// The stock hook uses a third part only if it is a string.
	if len(parts) != 3 || isText(parts[2]) != nil {
		parts = parts[:2]
	}
	return quote(parts), ""
}
