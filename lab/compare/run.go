package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// The measures beside those named after an event of MoM's.
const (
	firstCommand = "first command" // ms
	memory       = "memory"        // MB, of the services
	jobMemory    = "job memory"    // MB, more for each job
	processesEnd = "processes end" // ms
	jobEnd       = "job end"       // ms
)

// run is what one run of the comparison has measured: values by engine and measure.
type run struct {
	Began    string                       `json:"began"`
	Rounds   int                          `json:"rounds"`
	Machine  string                       `json:"machine"`
	Versions string                       `json:"versions"`
	Figures  map[string]map[string]values `json:"figures"`
}

// values are milliseconds, or MB. In JSON they are one string, which is one line of the file.
type values []float64

func (v values) MarshalText() ([]byte, error) {
	var s []string
	for _, x := range v {
		s = append(s, fmt.Sprintf("%.1f", x))
	}
	return []byte(strings.Join(s, " ")), nil
}

func (v *values) UnmarshalText(text []byte) (err error) {
	*v, err = seconds(string(text), len(strings.Fields(string(text))))
	return err
}

// median returns the middle value, 0 without values.
func (v values) median() float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(v)-1)/2] + sorted[len(v)/2]) / 2
}

// readRuns returns no runs where the file does not exist.
func readRuns(name string) (runs []run, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return runs, nil
}

func writeRuns(name string, runs []run) error {
	text, err := json.MarshalIndent(runs, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
