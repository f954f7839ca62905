package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
)

const (
	mostGPUText = 4096 // bytes of one value
	mostModels  = 32   // in one value
)

// noCount is the Count of an item that does not give one.
const noCount = -1

var (
	errSize   = errors.New("not a size such as 40gb")
	errLong   = fmt.Errorf("longer than %d bytes", mostGPUText)
	errModels = fmt.Errorf("more than %d models", mostModels)
)

// parseGPUs parses the value of gpus, whose items have the form vendor:models:memory:count and are
// joined by +. Trailing fields may be left out. An empty field or * means any, or 1 for the count.
// Models are joined by commas. Memory is 40GB, 40GB.., ..80GB or 40GB..80GB, inclusive. Empty text
// has no items. An item without a count gets noCount.
//
// A bare number means that many GPUs of any kind, because sites already used a resource of this
// name to count GPUs.
func parseGPUs(text string) ([]placement.Want, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > mostGPUText {
		return nil, errLong
	}
	if n, err := parseCount(text); err == nil {
		return []placement.Want{{Resource: "ngpus", Count: n}}, nil
	}
	var wants []placement.Want
	for item := range strings.SplitSeq(text, "+") {
		if len(wants) == mostWants {
			return nil, fmt.Errorf("more than %d items", mostWants)
		}
		if strings.TrimSpace(item) == "" {
			return nil, errors.New("an empty item")
		}
		fields := strings.Split(item, ":")
		if len(fields) > 4 {
			return nil, errors.New("more than vendor:models:memory:count")
		}
		for i := range fields {
			if fields[i] = strings.TrimSpace(fields[i]); fields[i] == "*" {
				fields[i] = ""
			}
		}
		fields = append(fields, "", "", "")[:4]
		w := placement.Want{Resource: "ngpus", Vendor: strings.ToLower(fields[0]), Count: noCount}
		if vendors := inventory.Vendors(); w.Vendor != "" && !slices.Contains(vendors, w.Vendor) {
			return nil, fmt.Errorf("vendor %s is none of %s", pbs.Shown(fields[0]), strings.Join(vendors, ", "))
		}
		var err error
		if w.Models, err = parseModels(fields[1]); err != nil {
			return nil, err
		}
		if w.MinMemory, w.MaxMemory, err = parseMemory(fields[2]); err != nil {
			return nil, fmt.Errorf("memory %s: %w", pbs.Shown(fields[2]), err)
		}
		if fields[3] != "" {
			if w.Count, err = parseCount(fields[3]); err != nil {
				return nil, fmt.Errorf("count %s: %w", pbs.Shown(fields[3]), err)
			}
		}
		wants = append(wants, w)
	}
	return wants, nil
}

// parseModels parses names joined by commas. Nil means any.
func parseModels(text string) ([]string, error) {
	if len(text) > mostGPUText {
		return nil, errLong
	}
	if text = strings.TrimSpace(text); text == "" || text == "*" {
		return nil, nil
	}
	models := strings.Split(text, ",")
	if len(models) > mostModels {
		return nil, errModels
	}
	for i, model := range models {
		models[i] = strings.TrimSpace(model)
		word := strings.ContainsFunc(model, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
		strange := strings.ContainsFunc(model, func(r rune) bool {
			return r == unicode.ReplacementChar || !strconv.IsPrint(r) || r == '*'
		})
		if !word || strange {
			return nil, fmt.Errorf("%s is not a model", pbs.Shown(model))
		}
	}
	return models, nil
}

// parseMemory parses N, N.., ..M and N..M. 0 means no bound.
func parseMemory(text string) (least, most int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		high = low
	}
	if low == "" && high == "" {
		return 0, 0, errSize
	}
	for _, end := range []struct {
		text string
		to   *int64
	}{{low, &least}, {high, &most}} {
		if end.text == "" {
			continue
		}
		size, err := pbs.ParseSize(end.text)
		// A number without a unit is more likely a misplaced count than a size in bytes.
		if err != nil || size == 0 || strings.Trim(end.text, "0123456789") == "" {
			return 0, 0, errSize
		}
		*end.to = int64(size)
	}
	if most > 0 && least > most {
		return 0, 0, errors.New("the first is larger than the second")
	}
	return least, most, nil
}
