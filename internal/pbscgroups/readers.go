package pbscgroups

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/config"
)

// outcome is what becomes of a value.
type outcome struct {
	became Became
	set    []setting
	why    string
}

// setting is a line of hookhost.toml: "memory.default" and its value there.
type setting struct{ key, value string }

// set reads a value into one key of ours. A value that ours does not take is refused in its own
// words.
func set(ours string, read func(value) (string, error)) reader {
	return func(v value) (outcome, error) {
		text, err := read(v)
		if errors.Is(err, errTooLarge) || errors.Is(err, errRange) {
			return outcome{became: Refused, why: err.Error()}, nil
		}
		if err != nil {
			return outcome{}, err
		}
		return outcomeOf(setting{ours, text}), nil
	}
}

// outcomeOf returns the outcome of one setting.
func outcomeOf(s setting) outcome {
	if _, err := config.Parse([]byte(s.key+" = "+s.value+"\n"), config.Here{}); err != nil {
		return outcome{became: Refused, why: err.Error()}
	}
	return outcome{became: Ours, set: []setting{s}}
}

// The errors of a value that the stock hook takes and that ours has no room for.
var (
	errTooLarge = errors.New("too large")
	errRange    = errors.New("out of range")
)

func notNeeded(value) (outcome, error) { return outcome{became: NotNeeded}, nil }

// readAs checks the type before it reads.
func readAs(check func(value) error, read reader) reader {
	return func(v value) (outcome, error) {
		if err := check(v); err != nil {
			return outcome{}, err
		}
		return read(v)
	}
}

func isText(v value) error {
	if v.kind != text {
		return errors.New("want a string")
	}
	return nil
}

func isNumber(v value) error {
	_, err := numberOf(v)
	return err
}

func truthOf(v value) (string, error) {
	c, err := readCondition(v)
	return c.String(), err
}

func prefix(v value) (outcome, error) {
	if err := isText(v); err != nil {
		return outcome{}, err
	}
	return outcomeOf(setting{"cgroup.prefix", quote(v.scalar)}), nil
}

func placement(v value) (outcome, error) {
	if err := isText(v); err != nil {
		return outcome{}, err
	}
	ours, why := "", ""
	switch v.scalar {
	case "load_balanced":
		ours = "spread"
	case "load_packed":
		ours = "pack"
	case "job_balanced":
		ours, why = "spread", "job_balanced counts the jobs of a socket, spread its cpus"
	default:
		ours, why = "pack", "the stock hook takes sockets in the order of their numbers for a value that it does not "+
			"know"
	}
	o := outcomeOf(setting{"cpuset.placement", quote(ours)})
	o.why = why
	return o, nil
}

func nvidiaSMI(v value) (outcome, error) {
	if err := isText(v); err != nil {
		return outcome{}, err
	}
	if v.scalar == "" {
		return outcomeOf(setting{"devices.discover_gpus", "false"}), nil
	}
	return outcome{became: NotNeeded}, nil
}

func mountPath(v value) (outcome, error) {
	if err := isText(v); err != nil {
		return outcome{}, err
	}
	const usual = "/sys/fs/cgroup"
	if p := path.Clean(v.scalar); v.scalar == "" || p == usual || strings.HasPrefix(p, usual+"/") {
		return outcome{became: NotNeeded}, nil
	}
	return outcome{became: Refused, why: "hookhost finds all controllers below one folder, " + usual +
		": if they are all below another, set [cgroup] mount to that"}, nil
}

// numberOf returns a number that is finite.
func numberOf(v value) (float64, error) {
	f, err := strconv.ParseFloat(v.scalar, 64)
	if v.kind != number || err != nil {
		return 0, errors.New("want a number")
	}
	return f, nil
}

// numberOrText also takes a number in a string, as Python's int and float do.
func numberOrText(v value) (float64, error) {
	if v.kind == text && plainNumber.MatchString(v.scalar) {
		v = value{kind: number, scalar: strings.TrimSpace(v.scalar)}
	}
	return numberOf(v)
}

var plainNumber = regexp.MustCompile(`^\s*[-+]?[0-9]+(\.[0-9]*)?\s*$`)

func float(v value) (string, error) {
	f, err := numberOf(v)
	return floatText(f), err
}

func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// leastShares is 2 of the 1000 cpu.shares that a cpu has.
const leastShares = 0.002

func sharesFraction(v value) (string, error) {
	f, err := numberOf(v)
	return floatText(max(f, leastShares)), err
}

// whole is a whole number as Python's int makes it of any: without its fraction.
func whole(v value) (string, error) {
	f, err := numberOrText(v)
	if err != nil {
		return "", err
	}
	if math.Abs(f) > 1e9 {
		return "", errRange
	}
	return strconv.FormatInt(int64(f), 10), nil
}

func seconds(v value) (string, error) {
	f, err := numberOf(v)
	if err != nil {
		return "", err
	}
	return duration(f)
}

func secondsOrText(v value) (string, error) {
	f, err := numberOrText(v)
	if err != nil {
		return "", err
	}
	return duration(f)
}

func microseconds(v value) (string, error) {
	f, err := numberOf(v)
	if err != nil || f != math.Trunc(f) {
		return "", errors.New("want a whole number of microseconds")
	}
	return duration(f / 1e6)
}

func duration(seconds float64) (string, error) {
	if !(seconds >= 0 && seconds < 1e9) {
		return "", errRange
	}
	return quote(time.Duration(math.Round(seconds * 1e9)).String()), nil
}

// cpus reads exclude_cpus: a list of numbers and ranges, or one string of them (openpbs
// pbs_cgroups.PY, expand_list).
func cpus(v value) (string, error) {
	var all []string
	items := v.items
	if v.kind != list {
		items = []value{v}
	}
	for _, item := range items {
		if item.kind != text && (item.kind != number || v.kind != list) {
			return "", errCPUs
		}
		if v.kind == text && strings.TrimSpace(item.scalar) == "" {
			break
		}
		for one := range strings.SplitSeq(item.scalar, ",") {
			first, last, isRange := strings.Cut(strings.TrimSpace(one), "-")
			low, err := cpu(first)
			high := low
			if err == nil && isRange {
				high, err = cpu(last)
			}
			switch {
			case err != nil:
				return "", err
			case high < low: // no cpu
			case isRange:
				all = append(all, fmt.Sprintf("%d-%d", low, high))
			default:
				all = append(all, strconv.Itoa(low))
			}
		}
	}
	return quote(strings.Join(all, ",")), nil
}

var errCPUs = errors.New(`want a list of cpus such as [0, "8-9"] or "0,8-9"`)

func cpu(text string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0, errCPUs
	}
	return int(n), nil
}
